// How a sum of products becomes an output, N22 to N25: the same for every family that forms such sums.
//   real  = fl32(acc) * M + B [* G + H] [+ (r - z_r) * R], each operation rounded [; * slope where below 0]
//   codes:               clamp(rne(real [/ scale]) + z_y, low, high)
//   of a function, codes: clamp(rne((f(real) [* S] [+ O]) / scale) + z_y, low, high)
//   floats:               [f] real [* S] [+ O], and no further than real_low and real_high
// Codes of a real with G, a residual or a slope are always divided.
#pragma once

#include <cstdint>
#include <limits>

#include "base/byte_grid.h"
#include "base/divisor.h"
#include "base/inline.h"
#include "kernels/float_steps/float_steps.h"

namespace intact {

struct FunctionCells;

// How sums become codes where no function and no slope stands in between; kernels have a loop for each.
enum class CodeForm { product, divided, divided_with_residual };
constexpr bool reads_residual(CodeForm form) { return form == CodeForm::divided_with_residual; }
constexpr bool divides(CodeForm form) { return form != CodeForm::product; }

// What is one for the whole layer; M, B, G, H, S, O and slopes are one for each channel and go to kernels by
// panel.
struct Epilogue {
  bool floats = false;  // y is float32
  bool has_residual = false;
  bool divides = false;  // codes are real / scale
  bool has_gain = false;  // G and H
  bool bounded = false;  // proved that what becomes a code is below 2^30 in magnitude, and `divisor` exact
  int32_t residual_zero_point = 0;
  float residual_multiplier = 0;
  int32_t zero_point = 0, low = 0, high = 255;  // bytes
  float real_low = -std::numeric_limits<float>::infinity();
  float real_high = std::numeric_limits<float>::infinity();
  float scale = 1;
  Divisor divisor;  // by scale
  RealFunction function = nullptr;  // nullptr: none
  // All behind the real at once, where one S and one O serve all channels; else nullptr.
  CurveFunction curve = nullptr;
  float factor = 1, offset = 0;  // they
  const SmoothFunction* smooth = nullptr;  // what is known of it, or nullptr
  const FunctionCells* cells = nullptr;  // bounds of its codes (gemm/cells.h), or nullptr

  INTACT_INLINE CodeForm code_form() const {
    return has_residual ? CodeForm::divided_with_residual : divides ? CodeForm::divided : CodeForm::product;
  }
  ByteGrid grid() const { return {zero_point, low, high}; }
  CurveCodes curve_codes() const { return {factor, offset, scale, grid()}; }
};

}  // namespace intact
