// One element at a time.
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/float_steps/loops.h"

namespace intact {
namespace {

struct Scalar {
  using Floats = float;
  using Ints = int32_t;
  static constexpr size_t kWidth = 1;

  static float set(float v) { return v; }
  static int32_t set_int(int32_t v) { return v; }
  static float load(const float* p) { return *p; }
  static void store(float* p, float v) { *p = v; }
  static int32_t load_int(const int32_t* p) { return *p; }
  static void store_int(int32_t* p, int32_t v) { *p = v; }
  static int32_t and_int(int32_t a, int32_t b) { return a & b; }
  static float load_part(const float*, size_t, float fill) { return fill; }  // no part of one
  static void store_part(float*, float, size_t) {}
  static float keep(float v, size_t) { return v; }
  static float larger(float a, float b) { return a > b ? a : b; }
  static float smaller(float a, float b) { return a < b ? a : b; }
  static float tree(std::array<float, float_steps::kLanes> lanes) {
    for (size_t half = lanes.size() / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
    }
    return lanes[0];
  }
  static float largest_of(float v) { return v; }
  static float root(float v) { return std::sqrt(v); }
  static bool is_nan(float v) { return v != v; }
  static bool any(bool a) { return a; }
  static bool less(float a, float b) { return a < b; }
  static bool less_equal(float a, float b) { return a <= b; }
  static float select(bool where, float yes, float no) { return where ? yes : no; }
  static float sqrt(float v) { return std::sqrt(v); }
  static float abs(float v) { return std::fabs(v); }
  static float with_sign(float v, float sign) { return std::copysign(v, sign); }
  static float lookup(const float (&table)[8], int32_t index) { return table[index & 7]; }
  static int32_t bits(float v) { return std::bit_cast<int32_t>(v); }
  // Whatever the bits of a NaN give, without overflow.
  static int32_t sub_int(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
  }
  template <int kBits>
  static int32_t shift_down(int32_t n) {
    return n >> kBits;
  }
  static int32_t add_int(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
  template <int kBits>
  static int32_t shift_left(int32_t n) {
    return static_cast<int32_t>(static_cast<uint32_t>(n) << kBits);
  }
  static float floats(int32_t bits) { return std::bit_cast<float>(bits); }
  static float to_float(int32_t n) { return static_cast<float>(n); }
  static int32_t to_int(float v) { return static_cast<int32_t>(std::nearbyint(v)); }
  static int32_t load_u8(const uint8_t* q) { return *q; }
  static int32_t load_u8_part(const uint8_t*, size_t) { return 0; }
  static void store_u8(uint8_t* q, int32_t n) { *q = static_cast<uint8_t>(n); }
  static void store_u8_part(uint8_t*, int32_t, size_t) {}
};

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_gelu(double x) { return x * std::erfc(x * -0.70710678118654752) / 2; }
double exact_gelu_tanh(double x) {
  return x * exact_sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x));
}
double exact_silu(double x) { return x * exact_sigmoid(x); }
double exact_hard_swish(double x) { return x * std::fmin(std::fmax(x / 6 + 0.5, 0.0), 1.0); }

}  // namespace

const SmoothFunction smooth_gelu = {exact_gelu, 2.85, 3e-7, 1.13, 0.086, 0};
const SmoothFunction smooth_gelu_tanh = {exact_gelu_tanh, 2.87, 3e-7, 1.13, 0.087, 0};
const SmoothFunction smooth_silu = {exact_silu, 0.66, 3e-7, 1.1, 0.1, 0};
const SmoothFunction smooth_hard_swish = {exact_hard_swish, 0, 5e-7, 1.5, 0.5, 3};

const FloatOps float_steps_ref = float_steps::ops_of<Scalar>();

const NamedFunction* find_function(const FloatOps& ops, const char* name) {
  for (const NamedFunction* f = ops.functions; f->name; ++f) {
    if (std::strcmp(f->name, name) == 0) return f;
  }
  return nullptr;
}

}  // namespace intact
