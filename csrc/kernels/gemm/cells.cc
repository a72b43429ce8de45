#include "kernels/gemm/cells.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace intact {
namespace {

constexpr double kFarthest = 4096;
constexpr double kMostSteps = 0x1p30;  // from 0 to the farthest top: they are integers
constexpr double kMostDoubt = 1.0 / 256;  // beyond, too many bytes are in doubt
constexpr double kUnit = 0x1p-24;         // the most that a float32 operation is off by, as a share

// The function's values in steps: codes change by one for each `scale` of them, from `offset` on.
struct Steps {
  double scale, offset, top;
  Steps(const Epilogue& e, float factor, float moved)
      : scale(double{e.scale} / factor), offset(double{moved} / e.scale), top(top_of(e)) {}

 private:
  // From where on codes are the highest one.
  double top_of(const Epilogue& e) const {
    const double highest = (e.high - e.zero_point + 1 - offset) * scale;
    double found = std::max(0.5, highest);
    if (!(found < kFarthest)) return found;
    while (e.smooth->exact(found) < highest) found += 0.125;
    return found;
  }
};

// Of all channels, the largest factor first; empty where bounds know nothing of them.
std::vector<Steps> all_steps(const Epilogue& e, std::span<const float> factors,
                             std::span<const float> offsets) {
  std::vector<std::pair<float, float>> channels;
  for (size_t c = 0; c < std::max({factors.size(), offsets.size(), size_t{1}}); ++c) {
    channels.emplace_back(factors.empty() ? e.factor : factors[c], offsets.empty() ? e.offset : offsets[c]);
  }
  const auto positive = [](const auto& channel) { return channel.first > 0; };
  if (!std::all_of(channels.begin(), channels.end(), positive)) return {};
  std::sort(channels.rbegin(), channels.rend());
  channels.erase(std::unique(channels.begin(), channels.end()), channels.end());
  std::vector<Steps> steps;
  for (const auto& [factor, offset] : channels) {
    steps.emplace_back(e, factor, offset);
    const Steps& s = steps.back();
    if (!(s.top < kFarthest && std::fabs(s.offset) < kFarthest)) return {};
  }
  return steps;
}

// The quartic of t, the distance from the middle of cell `n` in cells, through the rest at Chebyshev's nodes.
void fit_cell(const Epilogue& e, double scale, double cell, int n, double (&terms)[kCellTerms]) {
  double at[kCellTerms], parts[kCellTerms];
  for (int i = 0; i < kCellTerms; ++i) {
    at[i] = 0.5 * std::cos((2 * i + 1) * 3.14159265358979324 / (2 * kCellTerms));
    parts[i] = e.smooth->exact(-cell * (n + at[i])) / scale;
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
void fit_end(const Epilogue& e, double scale, double (&terms)[kCellTerms]) {
  const double end = e.smooth->end, middle = e.smooth->exact(-end / 2);
  terms[1] = 4 * middle / end / scale;
  terms[2] = -4 * middle / (end * end) / scale;
}

// Bounds the float32 error of a polynomial up to `reach`: each term is rounded, as is
// each fused product with its sum.
double rounding_of(const double (&terms)[kCellTerms], double reach) {
  double most = 0, power = 1;
  for (int i = 0; i < kCellTerms; ++i, power *= reach) most += (2 * i + 2) * std::fabs(terms[i]) * power;
  return most * kUnit * 1.01;
}

// By how many steps the floats that are rounded and the bounds' middle differ, at most, but for a
// polynomial's own rounding. `cell`: 0 where the function has an end.
double doubt_of(const Epilogue& e, const Steps& steps, double cell, double bias, bool each) {
  const SmoothFunction& f = *e.smooth;
  const double top = steps.top;
  const double far = f.end > 0 ? f.end : cell * kMostCell;
  // The error of interpolation at five Chebyshev nodes: fifth / 5! * 2 (cell / 4)^5.
  const double fit = f.fifth * std::pow(cell / 4, 5) / 60;
  const double values = f.error * std::max(1.0, top);
  // x itself, by a product and a sum there, and by one fused product here, whose constants are exact. With G
  // and H by two of each there, and by constants here that are rounded: (a M + B) G + H is off by 6 |x| +
  // 3 |B G| + 5 |H| at most, of which `bias` has the last two.
  const double each_x = e.has_gain ? 7 : 3;
  const double near = f.steepest * (each_x * std::max(top, 2.0) + bias);
  const double left = f.shallow * (each_x * far + bias);
  const double place = kUnit * std::max(near, left);
  const double beyond = f.end > 0 ? 0 : std::fabs(f.exact(-far));
  // There a product, a sum and a division; here the ramp, its sum and both bounds, and what a channel has.
  const double sums = (each ? 12 : 7) * kUnit * (top + 1 + std::fabs(steps.offset) * steps.scale);
  return (fit + values + place + beyond + sums) / steps.scale;
}

// The most that any channel has, with such cells.
double doubt_of(const Epilogue& e, const std::vector<Steps>& all, double cell, double bias, bool each) {
  double most = 0;
  for (const Steps& steps : all) most = std::max(most, doubt_of(e, steps, cell, bias, each));
  return most;
}

}  // namespace

std::unique_ptr<const FunctionCells> make_cells(const Epilogue& e, double bias,
                                                std::span<const float> factors,
                                                std::span<const float> offsets) {
  if (e.smooth == nullptr || e.floats || e.has_residual || !e.bounded) return nullptr;
  const std::vector<Steps> all = all_steps(e, factors, offsets);
  if (all.empty()) return nullptr;
  const Steps& steps = all.front();
  const bool each = all.size() > 1;
  double top = 0;
  for (const Steps& one : all) top = std::max(top, one.top);
  if (!(top / steps.scale < kMostSteps)) return nullptr;
  const double end = e.smooth->end;
  double cell = end > 0 ? 0 : 1, least = doubt_of(e, all, cell, bias, each);
  for (double tried = cell / 2; tried >= 0x1p-5; tried /= 2) {
    const double doubt = doubt_of(e, all, tried, bias, each);
    if (doubt < least) cell = tried, least = doubt;
  }
  double terms[kCells][kCellTerms] = {}, rounding = 0;
  for (int n = 0; n < (end > 0 ? 1 : kCells); ++n) {
    end > 0 ? fit_end(e, steps.scale, terms[n]) : fit_cell(e, steps.scale, cell, n, terms[n]);
    if (!each) terms[n][0] += steps.offset;
    rounding = std::max(rounding, rounding_of(terms[n], end > 0 ? end : 0.5));
  }
  const double doubt = least + rounding, unit = end > 0 ? 1 : cell;
  if (!(doubt <= kMostDoubt)) return nullptr;
  auto cells = std::make_unique<FunctionCells>();
  cells->end = static_cast<float>(end);
  cells->width = static_cast<float>(2 * doubt);
  cells->per_unit = static_cast<float>(1 / unit);
  cells->top = static_cast<float>(top / unit);
  cells->ramp = static_cast<float>(unit / steps.scale);
  cells->each = each;
  cells->per_factor = static_cast<float>(steps.scale / e.scale);
  cells->per_scale = 1 / e.scale;
  cells->doubt = static_cast<float>(doubt);
  for (int n = 0; n < kCells; ++n) {
    if (!each) terms[n][0] -= doubt;
    for (int power = 0; power < kCellTerms; ++power) {
      cells->terms[power][n] = static_cast<float>(terms[n][power]);
    }
  }
  return cells;
}

}  // namespace intact
