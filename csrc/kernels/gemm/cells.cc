#include "kernels/gemm/cells.h"

#include <algorithm>
#include <cmath>

namespace intact {
namespace {

constexpr double kFarthest = 4096;
constexpr double kMostDoubt = 1.0 / 256;  // beyond, too many bytes are in doubt
constexpr double kUnit = 0x1p-24;         // the most that a float32 operation is off by, as a share

// The quartic of t, the distance from the middle of cell `n` in cells, through the rest in steps at Chebyshev's
// nodes.
void fit_cell(const Epilogue& e, double cell, int n, double (&terms)[kCellTerms]) {
  double at[kCellTerms], parts[kCellTerms];
  for (int i = 0; i < kCellTerms; ++i) {
    at[i] = 0.5 * std::cos((2 * i + 1) * 3.14159265358979324 / (2 * kCellTerms));
    parts[i] = e.smooth->exact(-cell * (n + at[i])) / double{e.scale};
  }
  for (int order = 1; order < kCellTerms; ++order) {  // Newton's divided differences
    for (int i = kCellTerms - 1; i >= order; --i) {
      parts[i] = (parts[i] - parts[i - 1]) / (at[i] - at[i - order]);
    }
  }
  std::fill(terms, terms + kCellTerms, 0.0);
  for (int i = kCellTerms - 1; i >= 0; --i) {
    for (int power = kCellTerms - 1; power > 0; --power) {
      terms[power] = terms[power - 1] - at[i] * terms[power];
    }
    terms[0] = parts[i] - at[i] * terms[0];
  }
}

// What float32 makes of a cell's quartic is off by no more than this: each term is rounded, as is each fused
// product with its sum.
double rounding_of(const double (&terms)[kCellTerms]) {
  double most = 0, power = 1;
  for (int i = 0; i < kCellTerms; ++i, power /= 2) most += (2 * i + 2) * std::fabs(terms[i]) * power;
  return most * kUnit * 1.01;
}

// From where on codes are the highest one.
double top_of(const Epilogue& e) {
  const double highest = (e.high - e.zero_point + 1) * double{e.scale};
  double top = std::max(0.5, highest);
  while (e.smooth->exact(top) < highest) top += 0.125;
  return top;
}

// By how many steps the floats that are rounded and the bounds' middle differ, at most, but for a quartic's own
// rounding.
double doubt_of(const Epilogue& e, double cell, double top, double bias) {
  const double far = cell * kMostCell;
  // What interpolation at five Chebyshev nodes leaves: fifth / 5! * 2 (cell / 4)^5.
  const double fit = e.smooth->fifth * std::pow(cell / 4, 5) / 60;
  const double values = e.smooth->error * std::max(1.0, top);
  // x itself, by a product and a sum there, and by one fused product here, whose constants are exact.
  const double near = kSteepest * (3 * std::max(top, 2.0) + bias), left = kShallow * (3 * far + bias);
  const double place = kUnit * std::max(near, left);
  const double beyond = std::fabs(e.smooth->exact(-far));
  const double sums = 5 * kUnit * (top + cell);  // a division there; here the ramp, its sum and both bounds
  return (fit + values + place + beyond + sums) / double{e.scale};
}

}  // namespace

std::unique_ptr<const FunctionCells> make_cells(const Epilogue& e, double bias) {
  if (e.smooth == nullptr || e.floats || e.has_residual || !e.bounded) return nullptr;
  if (!((e.high - e.zero_point + 1) * double{e.scale} < kFarthest)) return nullptr;
  const double top = top_of(e);
  double cell = 1;
  for (double tried = cell; tried >= 0x1p-5; tried /= 2) {
    if (doubt_of(e, tried, top, bias) < doubt_of(e, cell, top, bias)) cell = tried;
  }
  auto cells = std::make_unique<FunctionCells>();
  double terms[kCells][kCellTerms], rounding = 0;
  for (int n = 0; n < kCells; ++n) {
    fit_cell(e, cell, n, terms[n]);
    rounding = std::max(rounding, rounding_of(terms[n]));
  }
  const double doubt = doubt_of(e, cell, top, bias) + rounding;
  if (!(doubt <= kMostDoubt)) return nullptr;
  cells->width = static_cast<float>(2 * doubt);
  cells->per_unit = static_cast<float>(1 / cell);
  cells->top = static_cast<float>(top / cell);
  cells->ramp = static_cast<float>(cell / double{e.scale});
  for (int n = 0; n < kCells; ++n) {
    terms[n][0] -= doubt;
    for (int power = 0; power < kCellTerms; ++power) {
      cells->terms[power][n] = static_cast<float>(terms[n][power]);
    }
  }
  return cells;
}

}  // namespace intact
