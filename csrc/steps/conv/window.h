// The window of a convolution: its check, and the offsets of its steps in the input.
#pragma once

#include <span>
#include <vector>

#include "steps/conv.h"

namespace intact {

inline void check_window(const ConvViews& s, const PackedHeader& h) {
  const View& x = s.x;
  const int64_t kernel[2] = {h.kernel_h, h.kernel_w};
  constexpr int64_t kMost = int64_t{1} << 30;
  for (int i = 0; i < 2; ++i) {
    const int64_t positions = s.y.sizes[i + 1], stride = s.strides[i], dilation = s.dilations[i];
    const bool sane = stride >= 1 && stride <= kMost && dilation >= 1 && dilation <= kMost &&
                      s.origin[i] >= -kMost && s.origin[i] <= kMost && positions >= 0 && positions <= kMost;
    demand(sane, "strides, dilations or pads are out of range");
    if (s.y.elements() == 0) continue;
    const int64_t last = (positions - 1) * stride + s.origin[i] + (kernel[i] - 1) * dilation;
    const bool inside = s.origin[i] >= -x.halo[i] && last <= x.sizes[i + 1] - 1 + x.halo[i + 2];
    demand(inside, "windows reach beyond the input and its halo");
  }
  const bool dense = x.strides[2] == x.sizes[3] && s.dilations[1] == 1;
  demand(h.joined == 0 || h.kernel_w == 1 || dense, "weights are packed for neighbouring pixels");
  const double reach = static_cast<double>(h.kernel_h) * static_cast<double>(s.dilations[0]) *
                           static_cast<double>(x.strides[1]) +
                       static_cast<double>(h.kernel_w) * static_cast<double>(s.dilations[1]) *
                           static_cast<double>(x.strides[2]);
  demand(reach < 2e9, "a window spans more than 2 GB");
}

// 0 where the window has no other line, or pixel that begins a run.
inline WindowPitch pitch_of(const ConvViews& s, const PackedHeader& h) {
  return {h.kernel_h == 1 ? 0 : s.dilations[0] * s.x.strides[1],
          h.kernel_w == 1 || h.joined != 0 ? 0 : s.dilations[1] * s.x.strides[2]};
}

// The offsets of steps at these positions, from the first byte of the window.
inline std::vector<int32_t> step_offsets(const WindowPitch& pitch, const PackedHeader& h,
                                         std::span<const int32_t> positions) {
  const auto [row, pixel] = pitch;
  const int32_t row_bytes = h.kernel_w * h.in;
  std::vector<int32_t> offsets;
  offsets.reserve(positions.size());
  for (const int32_t position : positions) {
    const int64_t kh = position / row_bytes, rest = position % row_bytes;
    const int64_t within = h.joined ? rest : rest / h.in * pixel + rest % h.in;
    offsets.push_back(static_cast<int32_t>(kh * row + within));
  }
  return offsets;
}

// The same for the steps of one panel.
inline std::vector<int32_t> step_offsets(const WindowPitch& pitch, const Packed& packed,
                                         const PackedPanel& panel) {
  const auto first = static_cast<size_t>(panel.positions), count = static_cast<size_t>(panel.steps);
  return step_offsets(pitch, packed.header, std::span(packed.positions).subspan(first, count));
}

// Bytes that the last step of a run reads behind the run.
inline size_t slack_of(const PackedHeader& h) {
  const int32_t run = h.joined ? h.kernel_w * h.in : h.in;
  return static_cast<size_t>((4 - run % 4) % 4);
}

}  // namespace intact
