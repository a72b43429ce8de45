// How a depthwise convolution of 16-bit codes ends: the sums of high and of low bytes, which its kernels make
// as floats, become those of the codes and go through the epilogue of a product. For depthwise.cc alone.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "steps/epilogue.h"

namespace intact {
namespace {

// Pixels of some neighbouring channels: 256 * high + low is their sums.
struct JoinedPixels {
  const float *high, *low;  // [pixels][width], whole numbers
  size_t pixels, first, width;  // channels [first, first + width)
  uint8_t* y;  // of pixel 0, channel 0
  ptrdiff_t y_pixel;
  const uint8_t* residual;  // as y; nullptr: none
  ptrdiff_t residual_pixel;
};

class Joined {
 public:
  Joined() = default;
  // `most`: pixels of one call. The constants are copied, each panel's last vector filled up with zeros.
  Joined(const GemmOps& ops, const EpilogueSpec& e, size_t most)
      : ops_(&ops), panel_(static_cast<size_t>(ops.unit * ops.widest)), most_(most) {
    const auto channels = static_cast<int32_t>(e.multiplier.size());
    constants_.append(e, 0, channels, channels + static_cast<int32_t>(panel_), {});
  }

  size_t scratch() const {
    return 2 * align64(most_ * panel_ * sizeof(float)) + align64(2 * most_ * sizeof(void*));
  }

  void write(const Epilogue& epilogue, const JoinedPixels& p, uint8_t* scratch) const {
    auto* const sums = reinterpret_cast<int32_t*>(scratch);
    uint8_t* const behind = scratch + align64(most_ * panel_ * sizeof(float));
    auto** const y = reinterpret_cast<uint8_t**>(behind + align64(most_ * panel_ * sizeof(float)));
    auto** const residual = const_cast<const uint8_t**>(y + most_);
    for (size_t i = 0; i < p.pixels; ++i) {
      y[i] = p.y + static_cast<ptrdiff_t>(i) * p.y_pixel;
      residual[i] =
          p.residual == nullptr ? nullptr : p.residual + static_cast<ptrdiff_t>(i) * p.residual_pixel;
    }
    const auto unit = static_cast<size_t>(ops_->unit), element = epilogue.floats ? sizeof(float) : 1;
    for (size_t c = 0; c < p.width; c += panel_) {
      const size_t channels = std::min(panel_, p.width - c), width = (channels + unit - 1) / unit * unit;
      const size_t at = p.first + c;
      join(p, c, channels, width, sums);
      ops_->finish(
          epilogue,
          {sums, static_cast<int>(p.pixels), static_cast<int>(width), static_cast<int>(channels),
           constants_.multiplier.data() + at, constants_.bias.data() + at, y,
           static_cast<ptrdiff_t>(at * element), p.residual == nullptr ? nullptr : residual,
           static_cast<ptrdiff_t>(at), reinterpret_cast<float*>(behind),
           PanelConstants::part_of(constants_.factors, at), PanelConstants::part_of(constants_.slopes, at),
           PanelConstants::part_of(constants_.offsets, at)});
    }
  }

 private:
  void join(const JoinedPixels& p, size_t c, size_t channels, size_t width, int32_t* sums) const {
    const int32_t* const correction = constants_.correction.data() + p.first + c;
    for (size_t i = 0; i < p.pixels; ++i, sums += width) {
      const float *high = p.high + i * p.width + c, *low = p.low + i * p.width + c;
      for (size_t k = 0; k < channels; ++k) {
        const auto above = static_cast<uint32_t>(static_cast<int32_t>(high[k]));
        const auto below = static_cast<uint32_t>(static_cast<int32_t>(low[k]));
        sums[k] = static_cast<int32_t>(256 * above + below + static_cast<uint32_t>(correction[k]));
      }
      std::fill(sums + channels, sums + width, 0);
    }
  }

  const GemmOps* ops_ = nullptr;
  size_t panel_ = 0, most_ = 0;
  PanelConstants constants_;
};

}  // namespace
}  // namespace intact
