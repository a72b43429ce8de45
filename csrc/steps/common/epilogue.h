// The epilogue of a layer as the makers of steps take it: one record and one check for convolutions,
// products and depthwise convolutions.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/epilogue.h"
#include "kernels/gemm/cells.h"
#include "steps/common/views.h"

namespace intact {

// The maker of a step sets `bounded`, `has_residual`, `has_gain`, `divisor` and `cells` (settle).
struct EpilogueSpec : Epilogue {
  std::vector<int32_t> correction;  // [c of y]: added to the sums
  std::vector<float> multiplier, bias;  // [c of y]
  std::vector<float> gains, shifts;  // G and H, [c of y]: both or neither
  float quotient = 1;  // divides reals in place of G; for products of two activations only
  std::vector<float> factors, offsets;  // S and O, [c of y], behind the function; empty: none
  std::vector<float> slopes;  // [c of y], multiply negative reals; without a function; empty: none
  std::optional<View> residual;  // bytes, sizes of y
  const FloatOps* ops = nullptr;  // the kernel of the function; set with a function or slopes
};

// Throws std::invalid_argument unless the numbers of `e` fit each other and so many channels.
// `of_activations`: the product has no constant factor.
inline void check_epilogue(const EpilogueSpec& e, int64_t channels, bool of_activations = false) {
  const auto byte = [](int32_t n) { return n >= 0 && n <= 255; };
  demand(byte(e.zero_point) && byte(e.residual_zero_point), "zero points are bytes");
  demand(byte(e.low) && byte(e.high) && e.low <= e.high, "bounds are bytes, low to high");
  demand((e.function == nullptr && !e.divides) || (e.scale > 0 && std::isfinite(e.scale)),
         "the scale that is divided by is not positive and finite");
  demand(
      e.floats || e.function != nullptr || e.divides || (!e.residual && e.slopes.empty() && e.gains.empty()),
      "codes of more than a product and a bias are divided");
  demand(e.function != nullptr || (e.factors.empty() && e.offsets.empty()),
         "factors and offsets stand behind a function");
  demand(e.function == nullptr || e.slopes.empty(), "slopes stand in place of a function");
  const auto each = static_cast<size_t>(channels);
  demand(e.correction.size() == each && e.multiplier.size() == each && e.bias.size() == each,
         "one correction, multiplier and bias for each channel");
  demand(e.quotient != 0 && std::isfinite(e.quotient), "reals are divided by a number other than 0");
  demand(of_activations || e.quotient == 1, "only products of activations are divided by a quotient");
  demand(e.gains.size() == e.shifts.size() && (e.gains.empty() || e.gains.size() == each),
         "one gain and one shift for each channel");
  demand(e.factors.empty() || e.factors.size() == each, "one factor for each channel");
  demand(e.offsets.empty() || e.offsets.size() == each, "one offset for each channel");
  demand(e.slopes.empty() || e.slopes.size() == each, "one slope for each channel");
}

// Throws std::invalid_argument unless y and the residual are what an epilogue writes and reads.
inline void check_ends(const Epilogue& e, const View& y, const std::optional<View>& residual) {
  demand(y.type == (e.floats ? Type::f32 : Type::u8), "y is of bytes, or of floats");
  demand(e.has_residual == residual.has_value(), "a residual where the epilogue reads one");
  if (!residual) return;
  demand_image(*residual, "a residual is an image of bytes with dense pixels");
  demand_same_sizes(*residual, y);
  elements_of(*residual);
}

// Whether every value is below 2^30 in magnitude before it is rounded to a code. `sums`: the largest
// magnitude of the sum of each channel, if known.
inline bool is_bounded(const EpilogueSpec& e, const std::vector<double>& sums = {}) {
  double most = 0;
  const double residual =
      256 * std::fabs(double{e.residual_multiplier}) + (e.divides ? 256 * e.scale : 256.0);
  for (size_t c = 0; c < e.multiplier.size(); ++c) {
    const double most_sum = sums.empty() ? 2147483648.0 : sums[c];
    double sum = std::fabs(double{e.multiplier[c]}) * most_sum + std::fabs(double{e.bias[c]});
    if (!e.gains.empty()) sum = sum * std::fabs(double{e.gains[c]}) + std::fabs(double{e.shifts[c]});
    const double slope = e.slopes.empty() ? 1.0 : std::max(std::fabs(double{e.slopes[c]}), 1.0);
    const double real = (sum + residual) * slope / (e.divides ? double{e.scale} : 1.0);
    if (!(real <= most)) most = real;
  }
  return most < 1073741824.0;
}

// Drops the curve unless all channels have the same factor and the same offset.
inline void settle_curve(EpilogueSpec& e) {
  const auto differ = [](const std::vector<float>& v) {
    return std::any_of(v.begin(), v.end(), [&](float one) { return !(one == v.front()); });
  };
  if (e.floats || differ(e.factors) || differ(e.offsets)) e.curve = nullptr;
  if (!e.factors.empty()) e.factor = e.factors.front();
  if (!e.offsets.empty()) e.offset = e.offsets.front();
}

// The largest magnitude of a bias, or, with gains, of 3 B G + 5 H (gemm/cells.h).
inline double largest_bias(const EpilogueSpec& e) {
  double most = 0;
  for (size_t c = 0; c < e.bias.size(); ++c) {
    double bias = std::fabs(double{e.bias[c]});
    if (!e.gains.empty())
      bias = 3 * bias * std::fabs(double{e.gains[c]}) + 5 * std::fabs(double{e.shifts[c]});
    most = std::max(most, bias);
  }
  return most;
}

// Sets the divisor and `bounded`. `sums` as for is_bounded.
inline void settle_ends(EpilogueSpec& e, const std::vector<double>& sums = {}) {
  e.has_residual = e.residual.has_value();
  e.has_gain = !e.gains.empty();
  if (e.divides) e.divisor = divisor_of(e.scale, e.low - e.zero_point, e.high - e.zero_point);
  e.bounded = is_bounded(e, sums) && e.divisor.exact;
}

// Sets all fields that follow from the others. Returns the bounds of the function's codes, which `e` points
// to; nullptr where there are none.
inline std::unique_ptr<const FunctionCells> settle(EpilogueSpec& e) {
  settle_ends(e);
  settle_curve(e);
  auto cells = make_cells(e, largest_bias(e), e.factors, e.offsets);
  e.cells = cells.get();
  return cells;
}

// The epilogue of a layer, settled, for images of any size: the steps of all sizes share one. Its `residual`
// is empty, because each step has a view of its own.
struct SettledEpilogue {
  explicit SettledEpilogue(EpilogueSpec spec) : epilogue(std::move(spec)), cells(settle(epilogue)) {
    epilogue.residual.reset();
  }
  SettledEpilogue(const SettledEpilogue&) = delete;
  SettledEpilogue& operator=(const SettledEpilogue&) = delete;

  EpilogueSpec epilogue;
  std::unique_ptr<const FunctionCells> cells;
};

}  // namespace intact
