#include "kernels/gemm/cells.h"

#include <algorithm>
#include <cmath>

namespace intact {
namespace {

constexpr double kFarthest = 4096;
constexpr double kMostDoubt = 1.0 / 256;  // beyond, too many bytes are in doubt
constexpr double kUnit = 0x1p-24;         // the most that a float32 operation is off by, as a share

// How the function's values become steps: codes change by one for each `scale` of them, from `offset` on.
struct Steps {
  double scale, offset;
  explicit Steps(const Epilogue& e) : scale(double{e.scale} / e.factor), offset(double{e.offset} / e.scale) {}
};

// The quartic of t, the distance from the middle of cell `n` in cells, through the rest at Chebyshev's nodes.
void fit_cell(const Epilogue& e, const Steps& steps, double cell, int n, double (&terms)[kCellTerms]) {
  double at[kCellTerms], parts[kCellTerms];
  for (int i = 0; i < kCellTerms; ++i) {
    at[i] = 0.5 * std::cos((2 * i + 1) * 3.14159265358979324 / (2 * kCellTerms));
    parts[i] = e.smooth->exact(-cell * (n + at[i])) / steps.scale + steps.offset;
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

// The quadratic of the magnitude that is 0 there and at the end.
void fit_end(const Epilogue& e, const Steps& steps, double (&terms)[kCellTerms]) {
  const double end = e.smooth->end, middle = e.smooth->exact(-end / 2);
  terms[0] = steps.offset;
  terms[1] = 4 * middle / end / steps.scale;
  terms[2] = -4 * middle / (end * end) / steps.scale;
}

// What float32 makes of a polynomial up to `reach` is off by no more than this: each term is rounded, as is
// each fused product with its sum.
double rounding_of(const double (&terms)[kCellTerms], double reach) {
  double most = 0, power = 1;
  for (int i = 0; i < kCellTerms; ++i, power *= reach) most += (2 * i + 2) * std::fabs(terms[i]) * power;
  return most * kUnit * 1.01;
}

// From where on codes are the highest one.
double top_of(const Epilogue& e, const Steps& steps) {
  const double highest = (e.high - e.zero_point + 1 - steps.offset) * steps.scale;
  double top = std::max(0.5, highest);
  while (e.smooth->exact(top) < highest) top += 0.125;
  return top;
}

// By how many steps the floats that are rounded and the bounds' middle differ, at most, but for a
// polynomial's own rounding. `cell`: 0 where the function has an end.
double doubt_of(const Epilogue& e, const Steps& steps, double cell, double top, double bias) {
  const SmoothFunction& f = *e.smooth;
  const double far = f.end > 0 ? f.end : cell * kMostCell;
  // What interpolation at five Chebyshev nodes leaves: fifth / 5! * 2 (cell / 4)^5.
  const double fit = f.fifth * std::pow(cell / 4, 5) / 60;
  const double values = f.error * std::max(1.0, top);
  // x itself, by a product and a sum there, and by one fused product here, whose constants are exact.
  const double near = f.steepest * (3 * std::max(top, 2.0) + bias), left = f.shallow * (3 * far + bias);
  const double place = kUnit * std::max(near, left);
  const double beyond = f.end > 0 ? 0 : std::fabs(f.exact(-far));
  // There a product, a sum and a division; here the ramp, its sum and both bounds.
  const double sums = 7 * kUnit * (top + 1 + std::fabs(steps.offset) * steps.scale);
  return (fit + values + place + beyond + sums) / steps.scale;
}

}  // namespace

std::unique_ptr<const FunctionCells> make_cells(const Epilogue& e, double bias) {
  if (e.smooth == nullptr || e.floats || e.has_residual || !e.bounded || !(e.factor > 0)) return nullptr;
  const Steps steps(e);
  const double top = top_of(e, steps), end = e.smooth->end;
  if (!(top < kFarthest && std::fabs(steps.offset) < kFarthest)) return nullptr;
  double cell = end > 0 ? 0 : 1;
  for (double tried = cell; tried >= 0x1p-5; tried /= 2) {
    if (doubt_of(e, steps, tried, top, bias) < doubt_of(e, steps, cell, top, bias)) cell = tried;
  }
  auto cells = std::make_unique<FunctionCells>();
  double terms[kCells][kCellTerms] = {}, rounding = 0;
  for (int n = 0; n < (end > 0 ? 1 : kCells); ++n) {
    end > 0 ? fit_end(e, steps, terms[n]) : fit_cell(e, steps, cell, n, terms[n]);
    rounding = std::max(rounding, rounding_of(terms[n], end > 0 ? end : 0.5));
  }
  const double doubt = doubt_of(e, steps, cell, top, bias) + rounding, unit = end > 0 ? 1 : cell;
  if (!(doubt <= kMostDoubt)) return nullptr;
  cells->end = static_cast<float>(end);
  cells->width = static_cast<float>(2 * doubt);
  cells->per_unit = static_cast<float>(1 / unit);
  cells->top = static_cast<float>(top / unit);
  cells->ramp = static_cast<float>(unit / steps.scale);
  for (int n = 0; n < kCells; ++n) {
    terms[n][0] -= doubt;
    for (int power = 0; power < kCellTerms; ++power) {
      cells->terms[power][n] = static_cast<float>(terms[n][power]);
    }
  }
  return cells;
}

}  // namespace intact
