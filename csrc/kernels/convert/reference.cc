// The meaning of the family, in integer arithmetic where C++ has no type for it.
#include <cmath>
#include <cstring>

#include "kernels/convert/convert.h"

namespace intact {
namespace {

uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ffu;
  if (exponent == 0) {  // zero or denormal: mantissa * 2^-24, exact
    const float size = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    return float_of(sign | bits_of(size));
  }
  if (exponent == 31) return float_of(sign | 0x7f800000u | mantissa << 13);
  return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t half_of_float(float x) {
  const uint32_t sign = (bits_of(x) >> 16) & 0x8000u;
  const uint32_t size = bits_of(x) & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (size >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round up
  if (size < 0x38800000u) {                                               // below 2^-14: denormal
    const float steps = std::nearbyint(float_of(size) * 16777216.0f);
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(steps));
  }
  const uint32_t rounded = size + 0xfffu + ((size >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

uint16_t bfloat_of_float(float x) {
  const uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

void from_f16(const uint16_t* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = half_to_float(x[i]);
}

void from_bf16(const uint16_t* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = float_of(static_cast<uint32_t>(x[i]) << 16);
}

void from_f64(const double* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]);
}

void to_f16(const float* x, size_t n, uint16_t* y) {
  for (size_t i = 0; i < n; ++i) y[i] = half_of_float(x[i]);
}

void to_bf16(const float* x, size_t n, uint16_t* y) {
  for (size_t i = 0; i < n; ++i) y[i] = bfloat_of_float(x[i]);
}

void to_f64(const float* x, size_t n, double* y) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<double>(x[i]);
}

}  // namespace

const ConvertOps convert_ref = {from_f16, from_bf16, from_f64, to_f16, to_bf16, to_f64};

}  // namespace intact
