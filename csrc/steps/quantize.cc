#include "steps/quantize.h"

#include <cmath>

#include "kernels/registry.h"
#include "steps/relayout.h"

namespace intact {
namespace {

// Derived has row(x, n, y), of dense floats and bytes.
template <class Derived>
class FloatsToBytes : public Relayout<Derived> {
 public:
  FloatsToBytes(const QuantizeOps& ops, const TransposeOps& transpose, const View& x, const View& y,
                float scale)
      : Relayout<Derived>(x, y), ops_(ops), scale_(scale), transpose_(transpose) {
    demand(x.type == Type::f32 && y.type == Type::u8, "float32 becomes bytes");
    demand(scale > 0 && std::isfinite(scale), "a scale is positive and finite");
  }

  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return this->tiled() ? this->tile_elements() : 0; }

  void element(const uint8_t* x, uint8_t* y) const noexcept { self().row(x, 1, y); }

  void tile(const Tile& t, uint8_t* scratch) const noexcept {
    for (size_t q = 0; q < t.q; ++q) {
      const uint8_t* x = t.x + static_cast<ptrdiff_t>(q) * t.x_pitch;
      // The next tile goes on here; planes lie too far apart for the hardware to see it.
      for (size_t i = 0; i < 4 * t.p; i += 64) __builtin_prefetch(x + 4 * t.p + i);
      self().row(x, t.p, scratch + q * t.p);
    }
    transpose_.bytes(scratch, static_cast<ptrdiff_t>(t.p), t.q, t.p, t.y, t.y_pitch);
  }

 protected:
  const QuantizeOps& ops_;
  float scale_;

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }

  const TransposeOps& transpose_;
};

class Quantize final : public FloatsToBytes<Quantize> {
 public:
  Quantize(const QuantizeOps& ops, const TransposeOps& transpose, const QuantizeSpec& s)
      : FloatsToBytes(ops, transpose, s.x, s.y, s.scale),
        low_(static_cast<float>(s.grid.low - s.grid.zero)),
        high_(static_cast<float>(s.grid.high - s.grid.zero)),
        lowest_(s.grid.low) {
    demand(is_sound(s.grid), "the output's grid is not within bytes");
  }

  void row(const uint8_t* x, size_t n, uint8_t* y) const noexcept {
    const Grid grid = {&scale_, &low_, &high_, true};
    ops_.quantize(reinterpret_cast<const float*>(x), n, grid, Codes{lowest_, false}, y);
  }

 private:
  float low_, high_;
  int32_t lowest_;
};

class QuantizeByte final : public FloatsToBytes<QuantizeByte> {
 public:
  QuantizeByte(const QuantizeOps& ops, const TransposeOps& transpose, const QuantizeByteSpec& s)
      : FloatsToBytes(ops, transpose, s.x, s.y, s.scale),
        low_(static_cast<float>(s.low)),
        high_(static_cast<float>(s.high)),
        write_(s.high_byte ? ops.high_byte : ops.low_byte) {
    demand(-65536 < s.low && s.low <= s.high && s.high < 65536, "ends of codes are out of range");
    demand(s.high - s.low < 65536, "codes have 16 bits");
  }

  void row(const uint8_t* x, size_t n, uint8_t* y) const noexcept {
    write_(reinterpret_cast<const float*>(x), n, {&scale_, &low_, &high_, true}, y);
  }

 private:
  float low_, high_;
  decltype(QuantizeOps::high_byte) write_;
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

std::unique_ptr<Step> make_quantize_byte(const QuantizeOps& ops, const TransposeOps& transpose,
                                         const QuantizeByteSpec& spec) {
  return std::make_unique<QuantizeByte>(ops, transpose, spec);
}

std::unique_ptr<Step> make_dequantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                      const DequantizeSpec& spec) {
  return std::make_unique<Dequantize>(ops, transpose, spec);
}

}  // namespace intact
