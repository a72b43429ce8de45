#include "steps/dequantize.h"

#include <cmath>

#include "kernels/registry.h"
#include "steps/common/relayout.h"

namespace intact {
namespace {

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

std::unique_ptr<Step> make_dequantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                      const DequantizeSpec& spec) {
  return std::make_unique<Dequantize>(ops, transpose, spec);
}

}  // namespace intact
