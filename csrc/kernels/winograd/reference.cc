// The meaning of the family: one lane.
#include "kernels/winograd/loops.h"

namespace intact {
namespace {

struct Plain {
  static constexpr int kWords = 1, kSums = 1;

  struct Words {
    int16_t v;
    static Words load(const uint8_t* p) { return {*p}; }
    static Words load_signed(const int8_t* p) { return {*p}; }
    static Words zero() { return {0}; }
    void store(int16_t* p) const { *p = v; }
    template <int kBits>
    Words times() const {
      return {static_cast<int16_t>(v * (1 << kBits))};
    }
    friend Words operator+(Words a, Words b) { return {static_cast<int16_t>(a.v + b.v)}; }
    friend Words operator-(Words a, Words b) { return {static_cast<int16_t>(a.v - b.v)}; }
  };

  // Unsigned, so that overflow wraps.
  struct Sums {
    uint32_t v;
    static Sums zero() { return {0}; }
    static Sums load(const int32_t* p) { return {static_cast<uint32_t>(*p)}; }
    void store(int32_t* p) const { *p = static_cast<int32_t>(v); }
    template <int kBits>
    Sums times() const {
      return {v << kBits};
    }
    template <int kBits>
    Sums down() const {
      return {static_cast<uint32_t>(static_cast<int32_t>(v) >> kBits)};
    }
    Sums times9th() const { return {v * static_cast<uint32_t>(winograd::kNinth)}; }
    friend Sums operator+(Sums a, Sums b) { return {a.v + b.v}; }
    friend Sums operator-(Sums a, Sums b) { return {a.v - b.v}; }
  };

  struct Pairs {
    int32_t even, odd;
  };
  static Pairs pairs(const int16_t* p) { return {p[0], p[1]}; }
  static Pairs pair(const int16_t* p) { return pairs(p); }
  static Sums dot(Sums s, Pairs a, Pairs b) {
    return {s.v + static_cast<uint32_t>(a.even * b.even) + static_cast<uint32_t>(a.odd * b.odd)};
  }
};

void multiply(const WinogradProduct& p) {
  for (int tile = 0; tile < p.tiles; ++tile) {
    for (int c = 0; c < p.width; ++c) {
      Plain::Sums sum = Plain::Sums::zero();
      for (int k = 0; k < p.channels; k += 2) {
        const int16_t* const weights = p.weights + (static_cast<ptrdiff_t>(k) * p.width) + 2 * c;
        sum = Plain::dot(sum, Plain::pair(p.input + static_cast<ptrdiff_t>(tile) * p.channels + k),
                         Plain::pairs(weights));
      }
      sum.store(p.sums + static_cast<ptrdiff_t>(tile) * p.width + c);
    }
  }
}

}  // namespace

const WinogradOps winograd_ref = {&gemm_ref,
                                  2,
                                  {8, 2000, 2000},
                                  winograd::transform_input<Plain>,
                                  winograd::transform_weights<Plain>,
                                  multiply,
                                  winograd::transform_output<Plain>};

}  // namespace intact
