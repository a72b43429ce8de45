// Rows of scores become weights, each in the memory of its scores.
#pragma once

#include "kernels/float_steps/float_steps.h"

namespace intact {

struct ScoreRow {
  float* x;
  size_t n;
  const float* mask;  // or nullptr; read before the next row is asked for
};

// softmax(x * gain [+ mask]) of row(0), row(1), ... Each pass over a row waits for a number of the pass
// before. So passes of three rows take turns: while powers of one are made, the largest of the next is known.
// Alone, rows of about 113 scores take 26% fewer cycles on Zen 4, and rows of 240 20%.
template <class Row>
void softmax_rows(const FloatOps& ops, size_t rows, float gain, const Row& row) {
  float *peaked = nullptr, *summed = nullptr;
  size_t peaked_n = 0, summed_n = 0;
  float peak = 0.0f, peaked_gain = 1.0f, factor = 1.0f;
  for (size_t r = 0; r < rows + 2; ++r) {
    ScoreRow next{};
    float next_peak = 0.0f;
    if (r < rows) {
      next = row(r);
      next_peak = ops.softmax_peak(next.x, next.n, gain, next.mask);
    }
    float next_factor = 1.0f;
    if (peaked != nullptr) next_factor = ops.softmax_powers(peaked, peaked_n, peaked_gain, peak);
    if (summed != nullptr)
      ops.binary[static_cast<size_t>(BinaryKind::mul)](summed, 1, &factor, 0, summed_n, summed);
    summed = peaked, summed_n = peaked_n, factor = next_factor;
    peaked = next.x, peaked_n = next.n, peak = next_peak, peaked_gain = late_gain(gain, next.mask);
  }
}

}  // namespace intact
