#include "steps/clip.h"

#include <cmath>

#include "steps/common/float_rows.h"

namespace intact {

std::unique_ptr<Step> make_clip(const FloatOps& ops, const TransposeOps& turn, const ClipSpec& s) {
  demand(!std::isnan(s.low) && !std::isnan(s.high), "a bound is not a number");
  const auto apply = [clip = ops.clip, low = s.low, high = s.high](const float* x, size_t n, float* y) {
    clip(x, n, low, high, y);
  };
  return std::make_unique<FloatMap<decltype(apply)>>(ops, turn, s.x, s.y, apply);
}

}  // namespace intact
