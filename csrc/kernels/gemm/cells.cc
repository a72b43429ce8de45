#include "kernels/gemm/cells.h"

#include <algorithm>
#include <cmath>

namespace intact {
namespace {

constexpr int kOutermost = 15;
constexpr double kFarthest = 4096;
constexpr double kMostDoubt = 1.0 / 256;  // beyond, too many bytes are in doubt
constexpr double kUnit = 0x1p-24;         // the most that a float32 operation is off by, as a share

// Where cells lie: the outermost ones are around `low` and `high`.
struct Range {
  double low, high;
  double cell() const { return (high - low) / (2 * kOutermost); }
  double middle() const { return (high + low) / 2; }
};

// The cubic of x in steps, x in cells, through the function at the Chebyshev nodes of cell `n`.
void fit_cell(const Epilogue& e, const Range& range, int n, double (&terms)[4]) {
  double at[4], parts[4];
  for (int i = 0; i < 4; ++i) {
    at[i] = n + 0.5 * std::cos((2 * i + 1) * 3.14159265358979324 / 8);
    parts[i] = e.smooth->exact(range.middle() + range.cell() * at[i]) / double{e.scale};
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

// What float32 makes of a cell's cubic is off by no more than this: each term is rounded, as is each fused
// product with its sum; the term of power i sees four roundings at most, those of order 0 and 1 two and
// three.
double rounding_of(const double (&terms)[4], int n) {
  double most = 0, power = 1;
  for (int i = 0; i < 4; ++i, power *= std::abs(n) + 0.5) most += (2 * i + 2) * std::fabs(terms[i]) * power;
  return most * kUnit * 1.01;
}

// By how many steps the floats that are rounded and the cubic differ, at most, but for its own rounding.
double doubt_of(const Epilogue& e, const Range& range, double bias) {
  const double half = range.cell() / 2, reach = std::max(range.high, -range.low), top = range.high;
  // What interpolation at four Chebyshev nodes leaves: fourth / 4! * 2 (half / 2)^4.
  const double fit = e.smooth->fourth * half * half * half * half / 192;
  const double values = e.smooth->error * std::max(1.0, top);
  // x itself, by a product and a sum there and by one fused product here, in constants that were rounded:
  // two of the product's size, two of the bias's, three each of x's and of the middle's.
  const double sizes = 2 * (reach + bias) + 2 * bias + 3 * reach + 3 * std::fabs(range.middle());
  const double place = kSteepest * kUnit * sizes;
  const double beyond = std::fabs(e.smooth->exact(range.low));  // x below the lowest cell
  const double division = 3 * kUnit * (top + range.cell());  // and both bounds
  return (fit + values + place + beyond + division) / double{e.scale};
}

// Above `high` codes are the highest one; below the best `low` the function is as good as 0.
Range range_of(const Epilogue& e, double bias) {
  const double highest = (e.high - e.zero_point + 1) * double{e.scale};
  Range best{-2, std::max(0.5, highest)};
  while (e.smooth->exact(best.high) < highest) best.high += 0.125;
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

}  // namespace

std::unique_ptr<const FunctionCells> make_cells(const Epilogue& e, double bias) {
  if (e.smooth == nullptr || e.floats || e.has_residual || !e.bounded) return nullptr;
  if (!((e.high - e.zero_point + 1) * double{e.scale} < kFarthest)) return nullptr;
  const Range range = range_of(e, bias);
  auto cells = std::make_unique<FunctionCells>();
  cells->per_unit = static_cast<float>(1 / range.cell());
  cells->middle = static_cast<float>(range.middle());
  double terms[2 * kOutermost + 1][4], rounding = 0;
  for (int n = -kOutermost; n <= kOutermost; ++n) {
    fit_cell(e, range, n, terms[n + kOutermost]);
    rounding = std::max(rounding, rounding_of(terms[n + kOutermost], n));
  }
  const double doubt = doubt_of(e, range, bias) + rounding;
  if (!(doubt <= kMostDoubt)) return nullptr;
  cells->width = static_cast<float>(2 * doubt);
  for (int n = -kOutermost; n <= kOutermost; ++n) {
    terms[n + kOutermost][0] -= doubt;
    for (int power = 0; power < 4; ++power) {
      cells->terms[power][n & 31] = static_cast<float>(terms[n + kOutermost][power]);
    }
  }
  return cells;
}

}  // namespace intact
