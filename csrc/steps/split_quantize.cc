#include "steps/split_quantize.h"

#include <cmath>

#include "kernels/registry.h"
#include "steps/common/relayout.h"

namespace intact {
namespace {

// Writes the high bytes of dense floats to y, and their low bytes `apart` bytes from there.
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
      const uint8_t* x = float_row(t, q);
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

}  // namespace

std::unique_ptr<Step> make_split_quantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                          const SplitQuantizeSpec& spec) {
  return std::make_unique<SplitQuantize>(ops, transpose, spec);
}

}  // namespace intact
