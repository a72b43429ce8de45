// Packed weights for the micro-kernels, independent of image shapes: the bytes that plan files store.
//
//   PackedHeader | PackedPanel[panels] | int32 positions[positions] | weights, at a multiple of 64
//
// The weights of a panel are padded with zeros as GemmOps::deep requires, and to a multiple of 64 bytes. The
// position of a step is that of its first byte in the window, (kh * kernel_w + kw) * in + c. A run is
// contiguous in the input: the channels of one pixel or, if `joined`, a whole row of the window. Steps
// divide runs into four bytes each. The last step of a run has zero weights for bytes behind the run.
// Little-endian. read_packed checks all bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/gemm/gemm.h"

namespace intact {

// Constant weights int8 [out, kernel_h, kernel_w, in], `in` and `out / groups` being those of one group.
struct GemmWeights {
  int32_t out, kernel_h, kernel_w, in, groups;
  bool joined;  // the pixels of a window row are contiguous: dilation 1, one group, no gaps
  int32_t high;  // the largest byte that the input can hold
};

// The proof behind groups of steps: for the largest byte of the input, or for inliers (GemmSplit).
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
  // The number of groups of 1, 2, ... steps. All zeros: the panel reads words, its steps are in the order of
  // the window, and weights are in halves, [2][width][2]: bytes 0 and 2 of each channel, then 1 and 3. If
  // not grouped, counts[0] is the number of steps.
  int32_t counts[kMostGroup];
};
static_assert(sizeof(PackedHeader) == 64 && sizeof(PackedPanel) == 64);

// The panels of the channels of one group: as few as possible, of nearly equal width.
struct PanelCut {
  int32_t channel, channels, width;
};
std::vector<PanelCut> cut_channels(int32_t channels, int unit, int widest);

std::vector<uint8_t> pack_gemm(const GemmWeights& shape, const int8_t* weights, const GemmOps& ops);

// Returns whether a panel of a grouped kernel reads words.
bool is_words(const PackedPanel& panel);

// The positions of all steps, in the order of the window.
std::vector<int32_t> window_steps(const PackedHeader& header);

struct Packed {
  PackedHeader header;
  std::vector<PackedPanel> panels;
  std::vector<int32_t> positions;
  const int8_t* weights;  // in the bytes given
};
// Throws std::invalid_argument for bytes that pack_gemm does not write for such a kernel.
Packed read_packed(const uint8_t* bytes, size_t size, const GemmOps& ops);

// One step of a panel while it is packed: [width][4] weights.
struct PackStep {
  int32_t position;
  std::vector<int8_t> weights;
};
// Divides the steps of one panel into groups, the largest first, in which no 16-bit lane overflows; steps
// are split where needed. `counts`: the number of groups of each size. If words are faster, counts are all
// zeros and the steps stay in order. groups.cc has the proof.
struct GroupedSteps {
  std::vector<PackStep> steps;
  int32_t counts[kMostGroup];
  double cost;  // of a row, in steps of words
};
GroupedSteps group_steps(const std::vector<PackStep>& steps, int32_t high);

// The sum of the weights of each channel of a panel, times `shift`; it wraps around, as sums do.
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
