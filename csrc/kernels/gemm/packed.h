// Weights as the micro-kernels read them, without any image's shape: bytes that plan files keep.
//
//   PackedHeader | PackedPanel[panels] | int32 positions[positions] | weights, at a multiple of 64
//
// Behind a panel's weights are zeros, as many as the kernel asks for (GemmOps::deep) and up to the next
// multiple of 64. A position is that of a step's first byte in the window, (kh * kernel_w + kw) * in + c. A
// run is what lies side by side in the input: one pixel's channels or, where `joined`, a whole row of the
// window, kernel_w pixels; steps cut runs into fours, and the last step of a run has zero weights where it
// reaches beyond. Little-endian. Everything in the bytes is checked before use: read_packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/gemm/gemm.h"

namespace intact {

// Constant weights int8 [out, kernel_h, kernel_w, in], `in` and `out / groups` being those of one group.
struct GemmWeights {
  int32_t out, kernel_h, kernel_w, in, groups;
  bool joined;  // the pixels of a window's row are neighbours: dilation 1, one group, no gaps
  int32_t high;  // the largest byte that the input can hold
};

// How a grouped kernel's steps are grouped: for the input's largest byte, or for inliers (GemmSplit).
constexpr int32_t kGroupedForAll = 1, kGroupedForInliers = 2;

struct PackedHeader {
  uint32_t magic;
  int32_t unit, grouped;  // 0 or one of the above
  int32_t out, kernel_h, kernel_w, in, groups, joined, high;
  int32_t panels, positions;
  int64_t weights;  // where they begin
  int64_t bytes;  // of all
};

struct PackedPanel {
  int64_t weights;  // offset behind the header's
  int32_t positions, steps;  // first, number
  int32_t channel, channels, width, group;
  // Groups of 1, 2, ... steps; none at all: words, all steps in the window's order, and their weights in
  // halves, [2][width][2]: bytes 0 and 2 of each channel, then 1 and 3. Not grouped: counts[0] is the number
  // of steps.
  int32_t counts[kMostGroup];
};
static_assert(sizeof(PackedHeader) == 64 && sizeof(PackedPanel) == 64);

// Panels of one group's channels: as few as the widest vector count allows, of nearly equal width.
struct PanelCut {
  int32_t channel, channels, width;
};
std::vector<PanelCut> cut_channels(int32_t channels, int unit, int widest);

std::vector<uint8_t> pack_gemm(const GemmWeights& shape, const int8_t* weights, const GemmOps& ops);

// Of a kernel that groups.
bool is_words(const PackedPanel& panel);

// The positions of all steps, in the window's order.
std::vector<int32_t> window_steps(const PackedHeader& header);

struct Packed {
  PackedHeader header;
  std::vector<PackedPanel> panels;
  std::vector<int32_t> positions;
  const int8_t* weights;  // in the bytes given
};
// Throws std::invalid_argument for bytes that are not what pack_gemm writes for such a kernel.
Packed read_packed(const uint8_t* bytes, size_t size, const GemmOps& ops);

// One step of a panel while it is packed: [width][4] weights.
struct PackStep {
  int32_t position;
  std::vector<int8_t> weights;
};
// The steps of one panel in groups that no 16-bit lane overflows in, split where needed, largest groups
// first; counts: the number of groups of each size. All zeros, and the steps as they were: words are faster.
// See groups.cc for the proof.
struct GroupedSteps {
  std::vector<PackStep> steps;
  int32_t counts[kMostGroup];
  double cost;  // of a row, in steps of words
};
GroupedSteps group_steps(const std::vector<PackStep>& steps, int32_t high);

// Of each channel of a panel, times `shift`; wraps around, as the sums do.
inline std::vector<int32_t> weight_sums(const int8_t* weights, const PackedPanel& panel, int32_t shift) {
  std::vector<uint32_t> sums(static_cast<size_t>(panel.width), 0);
  for (int32_t step = 0; step < panel.steps; ++step) {
    for (int32_t c = 0; c < panel.width; ++c, weights += 4) {
      for (int b = 0; b < 4; ++b) {
        sums[static_cast<size_t>(c)] += static_cast<uint32_t>(shift) * static_cast<uint32_t>(weights[b]);
      }
    }
  }
  return {sums.begin(), sums.end()};
}

}  // namespace intact
