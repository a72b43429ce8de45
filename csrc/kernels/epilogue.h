// The epilogue of a sum of products (N22 to N25), the same for every family that computes such sums.
//   real  = fl32(acc) * M + B [* G + H] [+ (r - z_r) * R], each operation rounded [; * slope where below 0]
//   codes:               clamp(rne(real [/ scale]) + z_y, low, high)
//   of a function, codes: clamp(rne((f(real) [* S] [+ O]) / scale) + z_y, low, high)
//   floats:               [f] real [* S] [+ O], clamped to [real_low, real_high]
// Codes of a real with G, a residual or a slope are always divided by the scale.
#pragma once

#include <cstdint>
#include <limits>

#include "base/byte_grid.h"
#include "base/divisor.h"
#include "base/inline.h"
#include "kernels/float_steps/float_steps.h"

namespace intact {

struct FunctionCells;

// The forms of the epilogue to codes without function and slopes. Kernels have a loop for each.
enum class CodeForm { product, divided, divided_with_residual };
constexpr bool reads_residual(CodeForm form) { return form == CodeForm::divided_with_residual; }
constexpr bool divides(CodeForm form) { return form != CodeForm::product; }

// The constants of the whole layer. M, B, G, H, S, O and slopes are per channel, and go to kernels by panel.
struct Epilogue {
  bool floats = false;  // y is float32
  bool has_residual = false;
  bool divides = false;  // codes are real / scale
  bool has_gain = false;  // G and H
  bool bounded = false;  // proved: values before rounding are below 2^30, and `divisor` is exact
  int32_t residual_zero_point = 0;
  float residual_multiplier = 0;
  int32_t zero_point = 0, low = 0, high = 255;  // bytes
  float real_low = -std::numeric_limits<float>::infinity();
  float real_high = std::numeric_limits<float>::infinity();
  float scale = 1;
  Divisor divisor;  // by scale
  RealFunction function = nullptr;  // nullptr: none
  // Function, S, O and rounding in one, if S and O are the same for all channels; otherwise nullptr.
  CurveFunction curve = nullptr;
  float factor = 1, offset = 0;  // S and O for it
  const SmoothFunction* smooth = nullptr;  // properties of the function, or nullptr
  const FunctionCells* cells = nullptr;  // bounds of its codes (gemm/cells.h), or nullptr

  INTACT_INLINE CodeForm code_form() const {
    return has_residual ? CodeForm::divided_with_residual : divides ? CodeForm::divided : CodeForm::product;
  }
  ByteGrid grid() const { return {zero_point, low, high}; }
  CurveCodes curve_codes() const { return {factor, offset, scale, grid()}; }
};

}  // namespace intact
