// The meaning of the family, in integer arithmetic where C++ has no type for it.
#include <cstring>

#include "base/half.h"
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
  for (size_t i = 0; i < n; ++i) y[i] = float_to_half(x[i]);
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
