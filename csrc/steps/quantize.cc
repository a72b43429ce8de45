#include "steps/quantize.h"

#include <cmath>

#include "kernels/registry.h"
#include "steps/relayout.h"
#include "steps/views.h"

namespace intact {
namespace {

// Row q of a tile of floats. The next tile goes on behind it; planes lie too far apart for the hardware to
// see that.
const uint8_t* fetched(const Tile& t, size_t q) {
  const uint8_t* const x = t.x + static_cast<ptrdiff_t>(q) * t.x_pitch;
  for (size_t i = 0; i < 4 * t.p; i += 64) __builtin_prefetch(x + 4 * t.p + i);
  return x;
}

class Quantize final : public Relayout<Quantize> {
 public:
  Quantize(const QuantizeOps& ops, const TransposeOps& transpose, const QuantizeSpec& s)
      : Relayout(s.x, s.y),
        ops_(ops),
        transpose_(transpose),
        scale_(s.scale),
        low_(static_cast<float>(s.grid.low - s.grid.zero)),
        high_(static_cast<float>(s.grid.high - s.grid.zero)),
        lowest_(s.grid.low) {
    demand(s.x.type == Type::f32 && s.y.type == Type::u8, "float32 becomes bytes");
    demand(s.scale > 0 && std::isfinite(s.scale), "a scale is positive and finite");
    demand(is_sound(s.grid), "the output's grid is not within bytes");
  }

  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return tiled() ? tile_elements() : 0; }

  void row(const uint8_t* x, size_t n, uint8_t* y) const noexcept {
    const Grid grid = {&scale_, &low_, &high_, true};
    ops_.quantize(reinterpret_cast<const float*>(x), n, grid, Codes{lowest_, false}, y);
  }
  void element(const uint8_t* x, uint8_t* y) const noexcept { row(x, 1, y); }

  void tile(const Tile& t, uint8_t* scratch) const noexcept {
    for (size_t q = 0; q < t.q; ++q) row(fetched(t, q), t.p, scratch + q * t.p);
    transpose_.bytes(scratch, static_cast<ptrdiff_t>(t.p), t.q, t.p, t.y, t.y_pitch);
  }

 private:
  const QuantizeOps& ops_;
  const TransposeOps& transpose_;
  float scale_, low_, high_;
  int32_t lowest_;
};

// The bytes of a run of floats, dense: to `y`, and others to `apart` from there.
struct Split {
  const QuantizeOps& ops;
  const TransposeOps& transpose;
  Grid grid;
  ptrdiff_t apart;

  void row(const uint8_t* x, size_t n, uint8_t* y) const noexcept {
    ops.split(reinterpret_cast<const float*>(x), n, grid, y, y + apart);
  }
  void element(const uint8_t* x, uint8_t* y) const noexcept { row(x, 1, y); }

  void tile(const Tile& t, uint8_t* scratch) const noexcept {
    uint8_t* const below = scratch + t.q * t.p;
    for (size_t q = 0; q < t.q; ++q) {
      const uint8_t* x = fetched(t, q);
      ops.split(reinterpret_cast<const float*>(x), t.p, grid, scratch + q * t.p, below + q * t.p);
    }
    const auto pitch = static_cast<ptrdiff_t>(t.p);
    transpose.bytes(scratch, pitch, t.q, t.p, t.y, t.y_pitch);
    transpose.bytes(below, pitch, t.q, t.p, t.y + apart, t.y_pitch);
  }
};

class SplitQuantize final : public Relayout<SplitQuantize> {
 public:
  SplitQuantize(const QuantizeOps& ops, const TransposeOps& transpose, const SplitQuantizeSpec& s)
      : Relayout(s.x, s.above),
        ops_(ops),
        transpose_(transpose),
        above_(s.above),
        below_(s.below),
        scale_(s.scale),
        low_(static_cast<float>(s.low)),
        high_(static_cast<float>(s.high)) {
    demand(s.x.type == Type::f32 && s.above.type == Type::u8 && s.below.type == Type::u8,
           "float32 becomes bytes");
    demand(s.scale > 0 && std::isfinite(s.scale), "a scale is positive and finite");
    demand(-65536 < s.low && s.low <= s.high && s.high < 65536, "ends of codes are out of range");
    demand(s.high - s.low < 65536, "codes have 16 bits");
    demand_same_sizes(s.below, s.above);
    demand(s.below.strides == s.above.strides, "low bytes lie as the high ones do");
    writes(s.below);
  }

  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return tiled() ? 2 * tile_elements() : 0; }

  Split in(const Memory& memory) const {
    const Grid grid{&scale_, &low_, &high_, true};
    return {ops_, transpose_, grid, below_.at<uint8_t>(memory) - above_.at<uint8_t>(memory)};
  }

 private:
  const QuantizeOps& ops_;
  const TransposeOps& transpose_;
  View above_, below_;
  float scale_, low_, high_;
};

class Dequantize final : public Relayout<Dequantize> {
 public:
  Dequantize(const QuantizeOps& ops, const TransposeOps& transpose, const DequantizeSpec& s)
      : Relayout(s.x, s.y),
        ops_(ops),
        transpose_(transpose),
        scale_(s.scale),
        low_(static_cast<float>(-s.zero)) {
    demand(s.x.type == Type::u8 && s.y.type == Type::f32, "bytes become float32");
    demand(s.scale > 0 && std::isfinite(s.scale), "a scale is positive and finite");
    demand(-kMostZero < s.zero && s.zero < kMostZero, "a zero point is out of range");
  }

  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return tiled() ? tile_elements() : 0; }

  void row(const uint8_t* x, size_t n, uint8_t* y) const noexcept {
    const Grid grid = {&scale_, &low_, &low_, true};  // its upper bound is loaded, not used
    ops_.dequantize(x, n, grid, Codes{0, false}, reinterpret_cast<float*>(y));
  }
  void element(const uint8_t* x, uint8_t* y) const noexcept { row(x, 1, y); }

  void tile(const Tile& t, uint8_t* scratch) const noexcept {
    transpose_.bytes(t.x, t.x_pitch, t.q, t.p, scratch, static_cast<ptrdiff_t>(t.q));
    for (size_t p = 0; p < t.p; ++p) row(scratch + p * t.q, t.q, t.y + static_cast<ptrdiff_t>(p) * t.y_pitch);
  }

 private:
  const QuantizeOps& ops_;
  const TransposeOps& transpose_;
  float scale_, low_;
};

}  // namespace

std::unique_ptr<Step> make_quantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                    const QuantizeSpec& spec) {
  return std::make_unique<Quantize>(ops, transpose, spec);
}

std::unique_ptr<Step> make_split_quantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                          const SplitQuantizeSpec& spec) {
  return std::make_unique<SplitQuantize>(ops, transpose, spec);
}

std::unique_ptr<Step> make_dequantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                      const DequantizeSpec& spec) {
  return std::make_unique<Dequantize>(ops, transpose, spec);
}

}  // namespace intact
