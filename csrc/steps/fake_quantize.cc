#include "steps/fake_quantize.h"

#include <cmath>

#include "steps/common/float_rows.h"

namespace intact {
namespace {

constexpr float kMostSteps = 65535.0f;  // from zero, on a grid of 16 bits

}  // namespace

std::unique_ptr<Step> make_fake_quantize(const FloatOps& ops, const TransposeOps& turn,
                                         const FakeQuantizeOps& fake_quantize, const FakeQuantizeSpec& s) {
  demand(std::isfinite(s.scale) && s.scale > 0, "a scale is positive and finite");
  demand(-kMostSteps <= s.low && s.low <= s.high && s.high <= kMostSteps, "a grid has ends in order");
  const auto apply = [run = fake_quantize.run, scale = s.scale, low = s.low, high = s.high](
                         const float* x, size_t n, float* y) { run(x, n, {&scale, &low, &high, true}, y); };
  return std::make_unique<FloatMap<decltype(apply)>>(ops, turn, s.x, s.y, apply);
}

}  // namespace intact
