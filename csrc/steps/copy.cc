#include "steps/copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/relayout.h"

namespace intact {
namespace {

using namespace tuning::moves;

// Copies 4 to 16 bytes as two pieces that may overlap. For a row of a narrow tensor, a call of memcpy takes
// longer than the copy.
void copy_few(const uint8_t* x, size_t bytes, uint8_t* y) {
  const auto copy = [&]<class Piece>(Piece first) {
    Piece last;
    std::memcpy(&first, x, sizeof first);
    std::memcpy(&last, x + bytes - sizeof last, sizeof last);
    std::memcpy(y, &first, sizeof first);
    std::memcpy(y + bytes - sizeof last, &last, sizeof last);
  };
  bytes < 8 ? copy(uint32_t{}) : copy(uint64_t{});
}

// Copies n pieces of kBytes, each one stride apart.
template <size_t kBytes>
void pieces(const uint8_t* x, int64_t x_stride, uint8_t* y, int64_t y_stride, size_t n) {
  const auto go = [&](auto from, auto to) {
    for (size_t i = 0; i < n; ++i) {
      const auto at = static_cast<int64_t>(i);
      std::memcpy(y + at * to, x + at * from, kBytes);
    }
  };
  // A stride of two pieces is what SpaceToDepth reads. With constant strides the compiler vectorizes the
  // loop.
  constexpr std::integral_constant<int64_t, kBytes> kNext;
  constexpr std::integral_constant<int64_t, 2 * kBytes> kOther;
  x_stride == kOther&& y_stride == kNext ? go(kOther, kNext) : go(x_stride, y_stride);
}

using Pieces = void (*)(const uint8_t* x, int64_t x_stride, uint8_t* y, int64_t y_stride, size_t n);

// The instance of `pieces` for a size; nullptr for sizes at which a call of memcpy is as fast.
Pieces pieces_of(size_t bytes) {
  switch (bytes) {
    case 1: return pieces<1>;
    case 2: return pieces<2>;
    case 3: return pieces<3>;
    case 4: return pieces<4>;
    case 6: return pieces<6>;
    case 8: return pieces<8>;
    case 12: return pieces<12>;
    case 16: return pieces<16>;
    case 24: return pieces<24>;
    case 32: return pieces<32>;
    default: return nullptr;
  }
}

class Copy final : public Relayout<Copy> {
 public:
  Copy(const TransposeOps& transpose, const CopySpec& s)
      : Relayout(s.x, s.y), transpose_(transpose), unit_(bytes_of(s.y.type)) {
    demand(s.x.type == s.y.type, "a copy keeps the type");
  }

  std::string name() const override { return name_of(&transpose_); }
  void row(const uint8_t* x, size_t n, uint8_t* y) const noexcept {
    const size_t bytes = n * unit_;
    bytes < 4 || bytes > 16 ? static_cast<void>(std::memcpy(y, x, bytes)) : copy_few(x, bytes, y);
  }
  void element(const uint8_t* x, uint8_t* y) const noexcept { std::memcpy(y, x, unit_); }

  // Dense rows whole, others column by column.
  void short_rows(const ShortRows& r) const noexcept {
    const auto unit = static_cast<int64_t>(unit_);
    const bool dense = r.q < 2 || (r.x_strides[1] == unit && r.y_strides[1] == unit);
    const Pieces whole = dense ? pieces_of(r.q * unit_) : nullptr;
    if (whole != nullptr) return whole(r.x, r.x_strides[0], r.y, r.y_strides[0], r.p);
    if (dense) {
      for (size_t p = 0; p < r.p; ++p) {
        const auto at = static_cast<int64_t>(p);
        row(r.x + at * r.x_strides[0], r.q, r.y + at * r.y_strides[0]);
      }
      return;
    }
    const Pieces elements = pieces_of(unit_);
    for (size_t p = 0; p < r.p; p += kNearRows) {
      const auto from = static_cast<int64_t>(p);
      const uint8_t* x = r.x + from * r.x_strides[0];
      uint8_t* y = r.y + from * r.y_strides[0];
      for (size_t q = 0; q < r.q; ++q, x += r.x_strides[1], y += r.y_strides[1]) {
        elements(x, r.x_strides[0], y, r.y_strides[0], std::min(kNearRows, r.p - p));
      }
    }
  }

  void tile(const Tile& t, uint8_t*) const noexcept {
    if (unit_ == 1) return transpose_.bytes(t.x, t.x_pitch, t.q, t.p, t.y, t.y_pitch);
    if (unit_ == 4) return transpose_.words(t.x, t.x_pitch, t.q, t.p, t.y, t.y_pitch);
    for (size_t p = 0; p < t.p; ++p) {
      for (size_t q = 0; q < t.q; ++q) {
        element(t.x + static_cast<ptrdiff_t>(q) * t.x_pitch + p * unit_,
                t.y + static_cast<ptrdiff_t>(p) * t.y_pitch + q * unit_);
      }
    }
  }

 private:
  const TransposeOps& transpose_;
  size_t unit_;
};

}  // namespace

std::unique_ptr<Step> make_copy(const TransposeOps& transpose, const CopySpec& spec) {
  return std::make_unique<Copy>(transpose, spec);
}

}  // namespace intact
