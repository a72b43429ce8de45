#include "steps/quantize.h"

#include <cmath>

#include "kernels/registry.h"
#include "steps/common/relayout.h"

namespace intact {
namespace {

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
    for (size_t q = 0; q < t.q; ++q) row(float_row(t, q), t.p, scratch + q * t.p);
    transpose_.bytes(scratch, static_cast<ptrdiff_t>(t.p), t.q, t.p, t.y, t.y_pitch);
  }

 private:
  const QuantizeOps& ops_;
  const TransposeOps& transpose_;
  float scale_, low_, high_;
  int32_t lowest_;
};

}  // namespace

std::unique_ptr<Step> make_quantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                    const QuantizeSpec& spec) {
  return std::make_unique<Quantize>(ops, transpose, spec);
}

}  // namespace intact
