// The meaning of the family, in the fewest lines.
#include "kernels/dynamic_depthwise/dynamic_depthwise.h"

namespace intact {
namespace {

template <class Code>
void run(const DynamicDepthwise& d) {
  for (size_t p = 0; p < d.pixels; ++p) {
    for (size_t c = 0; c < d.channels; ++c) {
      auto sum = static_cast<uint32_t>(d.starts[c]);
      for (size_t t = 0; t < d.taps; ++t) {
        const auto w = static_cast<int16_t>(d.weights[t * d.channels + c]);
        sum += static_cast<uint32_t>(static_cast<Code>(d.x[p * d.taps + t][c]) * w);
      }
      const float y = 0.0f + static_cast<float>(static_cast<int32_t>(sum)) * d.scales[c];
      d.y[p][c] = d.bias != nullptr ? y + d.bias[c] : y;
    }
  }
}

}  // namespace

const DynamicDepthwiseOps dynamic_depthwise_ref = {run<uint8_t>, run<int8_t>};

}  // namespace intact
