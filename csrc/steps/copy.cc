#include "steps/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/relayout.h"

namespace intact {
namespace {

using namespace tuning::moves;

// 4 to 16 bytes, as two pieces that may overlap: a call for each row of a narrow tensor takes longer than its
// bytes.
void few(const uint8_t* x, size_t bytes, uint8_t* y) {
  const auto copy = [&]<class Piece>(Piece first) {
    Piece last;
    std::memcpy(&first, x, sizeof first);
    std::memcpy(&last, x + bytes - sizeof last, sizeof last);
    std::memcpy(y, &first, sizeof first);
    std::memcpy(y + bytes - sizeof last, &last, sizeof last);
  };
  bytes < 8 ? copy(uint32_t{}) : copy(uint64_t{});
}

// Pieces of kBytes, each a stride behind the last.
template <size_t kBytes>
void pieces(const uint8_t* x, int64_t x_stride, uint8_t* y, int64_t y_stride, size_t n) {
  const auto go = [&](auto from, auto to) {
    for (size_t i = 0; i < n; ++i) {
      const auto at = static_cast<int64_t>(i);
      std::memcpy(y + at * to, x + at * from, kBytes);
    }
  };
  // Every other one, as space to depth reads them: of strides that are known compilers make vectors.
  constexpr std::integral_constant<int64_t, kBytes> kNext;
  constexpr std::integral_constant<int64_t, 2 * kBytes> kOther;
  x_stride == kOther&& y_stride == kNext ? go(kOther, kNext) : go(x_stride, y_stride);
}

using Pieces = void (*)(const uint8_t* x, int64_t x_stride, uint8_t* y, int64_t y_stride, size_t n);

// The same of a number of bytes, where a call for each piece would take longer than the piece; or nullptr.
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
    bytes < 4 || bytes > 16 ? static_cast<void>(std::memcpy(y, x, bytes)) : few(x, bytes, y);
  }
  void element(const uint8_t* x, uint8_t* y) const noexcept { std::memcpy(y, x, unit_); }

  // Rows of neighbours in whole, others column by column.
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

// The same with y's axes in the order in which they lie in memory: of images whole pixels are copied.
GatherSpec in_order(const GatherSpec& s) {
  demand(s.x.rank == s.y.rank && s.indices.size() == static_cast<size_t>(s.y.rank),
         "one list of indices for each axis");
  const auto axes = axes_in_memory(s.y);
  GatherSpec found = s;
  for (int i = 0; i < s.y.rank; ++i) {
    const int from = axes[static_cast<size_t>(i)];
    found.x.sizes[i] = s.x.sizes[from];
    found.x.strides[i] = s.x.strides[from];
    found.y.sizes[i] = s.y.sizes[from];
    found.y.strides[i] = s.y.strides[from];
    found.indices[static_cast<size_t>(i)] = s.indices[static_cast<size_t>(from)];
  }
  return found;
}

class Gather final : public Step {
 public:
  explicit Gather(const GatherSpec& s) : s_(in_order(s)), unit_(bytes_of(s.y.type)), rank_(s.y.rank) {
    const size_t elements = elements_of(s.y);
    elements_of(s.x);
    demand(s.x.type == s.y.type && s.x.rank == rank_ && rank_ > 0, "x and y have one type and one rank");
    for (int i = 0; i < rank_; ++i) demand_within(i);
    const int last = rank_ - 1;
    find_runs(last);
    const size_t columns = static_cast<size_t>(s_.y.sizes[last]);
    rows_ = Rows(columns == 0 ? 0 : elements / columns, columns, kTile);
    reads(s.x);
    writes(s.y);
  }

  std::string name() const override { return "gather"; }
  size_t items() const override { return rows_.items(); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    rows_.visit(begin, end, [&](size_t row, size_t from, size_t n) {
      const uint8_t* x = s_.x.at<uint8_t>(memory);
      uint8_t* y = s_.y.at<uint8_t>(memory);
      for (int i = rank_ - 2; i >= 0; --i) {
        const size_t size = static_cast<size_t>(s_.y.sizes[i]), at = row % size;
        row /= size;
        x += s_.indices[static_cast<size_t>(i)][at] * s_.x.strides[i];
        y += static_cast<int64_t>(at) * s_.y.strides[i];
      }
      columns(x, y, from, n);
    });
  }

 private:
  void demand_within(int axis) const {
    const auto& indices = s_.indices[static_cast<size_t>(axis)];
    demand(indices.size() == static_cast<size_t>(s_.y.sizes[axis]), "one index for each position");
    for (const int64_t i : indices) demand(0 <= i && i < s_.x.sizes[axis], "an index is out of range");
  }

  // How many columns from each on lie behind one another in x and in y or, as a negative number, do not.
  void find_runs(int axis) {
    const auto& indices = s_.indices[static_cast<size_t>(axis)];
    const auto unit = static_cast<int64_t>(unit_);
    const bool dense = s_.x.strides[axis] == unit && s_.y.strides[axis] == unit;
    const auto joins = [&](size_t i) { return dense && indices[i + 1] == indices[i] + 1; };
    runs_.assign(indices.size(), -1);
    for (size_t i = indices.size(); i-- > 0;) {
      const int64_t next = i + 1 < indices.size() ? runs_[i + 1] : 0;
      if (next != 0 && joins(i)) {
        runs_[i] = std::max<int64_t>(next, 1) + 1;
      } else if (next < 0) {
        runs_[i] = next - 1;
      }
    }
  }

  void columns(const uint8_t* x, uint8_t* y, size_t from, size_t n) const {
    switch (unit_) {
      case 1: return columns_of<1>(x, y, from, n);
      case 2: return columns_of<2>(x, y, from, n);
      case 4: return columns_of<4>(x, y, from, n);
      default: return columns_of<8>(x, y, from, n);
    }
  }

  template <size_t kUnit>
  void columns_of(const uint8_t* x, uint8_t* y, size_t from, size_t n) const {
    const int64_t* const indices = s_.indices[static_cast<size_t>(rank_ - 1)].data();
    const int64_t x_step = s_.x.strides[rank_ - 1], y_step = s_.y.strides[rank_ - 1];
    for (size_t i = from, end = from + n; i < end;) {
      const size_t run = std::min(static_cast<size_t>(std::abs(runs_[i])), end - i);
      uint8_t* const to = y + static_cast<int64_t>(i) * y_step;
      if (runs_[i] > 0) {
        std::memcpy(to, x + indices[i] * x_step, run * kUnit);
      } else {
        for (size_t k = 0; k < run; ++k) {
          std::memcpy(to + static_cast<int64_t>(k) * y_step, x + indices[i + k] * x_step, kUnit);
        }
      }
      i += run;
    }
  }

  GatherSpec s_;
  size_t unit_;
  int rank_;
  std::vector<int64_t> runs_;
  Rows rows_;
};

class Fill final : public Step {
 public:
  explicit Fill(const FillSpec& s) : s_(s), walk_({s.y}), unit_(bytes_of(s.y.type)) {
    const int last = walk_.rank - 1;
    rows_ = Rows(walk_.outer(last), walk_.size(last), kTile);
    writes(s.y);
  }

  std::string name() const override { return "fill"; }
  size_t items() const override { return rows_.items(); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const int last = walk_.rank - 1;
    const int64_t step = walk_.strides[last][0];
    rows_.visit(begin, end, [&](size_t row, size_t from, size_t n) {
      uint8_t* y = s_.y.at<uint8_t>(memory) + Cursor<1>(walk_, last, row).offset(0);
      y += static_cast<int64_t>(from) * step;
      if (walk_.dense(0)) {
        std::memset(y, s_.value, n * unit_);
        return;
      }
      for (size_t i = 0; i < n; ++i, y += step) std::memset(y, s_.value, unit_);
    });
  }

 private:
  FillSpec s_;
  Walk<1> walk_;
  size_t unit_;
  Rows rows_;
};

class Halo final : public Step {
 public:
  explicit Halo(const HaloSpec& s) : s_(s) {
    const auto unit = static_cast<int64_t>(bytes_of(s.image.type));
    demand(s.image.rank == 4 && (s.image.sizes[3] < 2 || s.image.strides[3] == unit),
           "only an image (n, h, w, c) has a halo");
    demand(s.image.strides[2] == s.image.sizes[3] * unit, "pixels lie behind each other");
    elements_of(s.image);
    for (const int64_t h : s.image.halo) demand(0 <= h && h < kMostElements, "a halo is out of range");
    empty_ = s.image.sizes[0] == 0 || s.image.sizes[3] == 0;
    writes_with_halo(s.image);
  }

  std::string name() const override { return "halo"; }
  size_t items() const override { return empty_ ? 0 : 1; }

  void run(const Memory& memory, size_t, size_t, uint8_t*) const noexcept override {
    const auto& [top, left, bottom, right] = s_.image.halo;
    const auto& size = s_.image.sizes;
    const auto& stride = s_.image.strides;
    const int64_t pixel = stride[2];
    for (int64_t n = 0; n < size[0]; ++n) {
      uint8_t* rows = s_.image.at<uint8_t>(memory) + n * stride[0];
      for (int64_t h = -top; h < size[1] + bottom; ++h) {
        uint8_t* row = rows + h * stride[1];
        const bool whole = h < 0 || h >= size[1];
        fill(row - left * pixel, (whole ? left + size[2] + right : left) * pixel);
        if (!whole) fill(row + size[2] * pixel, right * pixel);
      }
    }
  }

 private:
  void fill(uint8_t* y, int64_t n) const { std::memset(y, s_.value, static_cast<size_t>(n)); }

  HaloSpec s_;
  bool empty_ = false;
};

}  // namespace

std::unique_ptr<Step> make_copy(const TransposeOps& transpose, const CopySpec& spec) {
  return std::make_unique<Copy>(transpose, spec);
}

std::unique_ptr<Step> make_gather(const GatherSpec& spec) { return std::make_unique<Gather>(spec); }

std::unique_ptr<Step> make_fill(const FillSpec& spec) { return std::make_unique<Fill>(spec); }

std::unique_ptr<Step> make_halo(const HaloSpec& spec) { return std::make_unique<Halo>(spec); }

}  // namespace intact
