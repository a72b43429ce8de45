#include "kernels/gemm/cells.h"

#include <algorithm>
#include <cmath>

namespace intact {
namespace {

constexpr int kOutermost = 15;
constexpr double kFarthest = 4096;
constexpr double kMostDoubt = 1.0 / 256;  // beyond, too many bytes are in doubt
constexpr double kUnit = 0x1p-24;         // the most that a float32 operation is off by, as a share

double value_at(const GemmEnding& e, double x) {
  const auto at = static_cast<float>(x);
  float y;
  e.function(&at, &y, 1);
  return y;
}

// Where cells lie: the outermost ones are around `low` and `high`.
struct Range {
  double low, high;
  double cell() const { return (high - low) / (2 * kOutermost); }
  double middle() const { return (high + low) / 2; }
};

// By how many steps the reals that are rounded differ, at most, from the cubic, and both as computed.
double doubt_of(const GemmEnding& e, const Range& range, double bias) {
  const double half = range.cell() / 2, reach = std::max(range.high, -range.low), top = range.high;
  // What interpolation at four Chebyshev nodes leaves: fourth / 4! * 2 (half / 2)^4. An error of the values
  // there grows by 1.85 at most; the function as computed is off by one itself.
  const double fit = e.smooth->fourth * half * half * half * half / 192 * 1.01;
  const double values = 2.85 * e.smooth->error * std::max(1.0, top);
  // x by one fused product and not by two operations, in constants that were rounded too.
  const double products = 2 * (reach + bias), offsets = 2 * (bias + std::fabs(range.middle()));
  const double place = kSteepest * kUnit * (products + offsets + 2 * reach);
  const double beyond = std::fabs(value_at(e, range.low));  // x below the lowest cell
  // Roundings of the cubic, of its terms and of the division, all of numbers up to top + one cell.
  const double evaluation = 16 * kUnit * (top + range.cell());
  return (fit + values + place + beyond + evaluation) / double{e.scale};
}

// Above `high` codes are the highest one; below the best `low` the function is as good as 0.
Range range_of(const GemmEnding& e, double bias) {
  const double highest = (e.high - e.zero_point + 1) * double{e.scale};
  Range best{-2, std::max(0.5, highest)};
  while (value_at(e, best.high) < highest) best.high += 0.125;
  double least = doubt_of(e, best, bias);
  for (Range tried = best; tried.low >= -20; tried.low -= 0.25) {
    const double doubt = doubt_of(e, tried, bias);
    if (doubt < least) {
      least = doubt;
      best = tried;
    }
  }
  return best;
}

// The cubic of f in steps, f in cells from the middle of a cell, through four points of it.
void fit_cell(const GemmEnding& e, double middle, double cell, double (&terms)[4]) {
  double at[4], parts[4];
  for (int i = 0; i < 4; ++i) {
    const auto x = static_cast<float>(middle + cell * 0.5 * std::cos((2 * i + 1) * 3.14159265358979 / 8));
    at[i] = (x - middle) / cell;
    parts[i] = value_at(e, x) / double{e.scale};
  }
  for (int order = 1; order < 4; ++order) {  // Newton's divided differences
    for (int i = 3; i >= order; --i) parts[i] = (parts[i] - parts[i - 1]) / (at[i] - at[i - order]);
  }
  std::fill(terms, terms + 4, 0.0);
  for (int i = 3; i >= 0; --i) {
    for (int power = 3; power > 0; --power) terms[power] = terms[power - 1] - at[i] * terms[power];
    terms[0] = parts[i] - at[i] * terms[0];
  }
}

}  // namespace

std::unique_ptr<const FunctionCells> make_cells(const GemmEnding& e, double bias) {
  if (e.smooth == nullptr || e.reals || e.has_residual || !e.bounded) return nullptr;
  if (!((e.high - e.zero_point + 1) * double{e.scale} < kFarthest)) return nullptr;
  const Range range = range_of(e, bias);
  const double doubt = doubt_of(e, range, bias);
  if (!(doubt <= kMostDoubt)) return nullptr;
  auto cells = std::make_unique<FunctionCells>();
  cells->width = static_cast<float>(2 * doubt);
  cells->per_unit = static_cast<float>(1 / range.cell());
  cells->middle = static_cast<float>(range.middle());
  for (int cell = -kOutermost; cell <= kOutermost; ++cell) {
    double terms[4];
    fit_cell(e, cells->middle + cell / double{cells->per_unit}, 1 / double{cells->per_unit}, terms);
    terms[0] -= doubt;
    for (int power = 0; power < 4; ++power) {
      cells->terms[power][cell & 31] = static_cast<float>(terms[power]);
    }
  }
  return cells;
}

}  // namespace intact
