// All time steps and directions of an LSTM, a GRU or a simple recurrent network: numerics.recurrence (N52,
// N74).
// x holds the sums over the inputs, at which the sums over the states begin.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/float_gemm/float_gemm.h"
#include "kernels/float_steps/float_steps.h"
#include "steps/common/dynamic_states.h"
#include "steps/common/named_kinds.h"
#include "steps/common/real_views.h"

namespace intact {

enum class Cell : uint8_t { gru, gru_reset_after, lstm, rnn_relu, rnn_tanh };
constexpr size_t kCells = 5;
constexpr const char* kCellNames[kCells] = {"gru", "gru_reset_after", "lstm", "rnn_relu", "rnn_tanh"};
constexpr std::optional<Cell> cell_of(std::string_view name) { return find_kind<Cell>(kCellNames, name); }
constexpr int64_t gates_of(Cell cell) {
  constexpr int64_t kGates[kCells] = {3, 3, 4, 1, 1};
  return kGates[static_cast<size_t>(cell)];
}

struct RecurrentSpec {
  Cell cell;
  int64_t hidden;
  std::vector<bool> reverse;  // one per direction
  View x;  // float32 [steps, batch, directions * gates * hidden]
  View packed;  // float32: weights of the states per direction, as panels; for gru the last gate apart
  std::optional<DynamicStates> dynamic;  // instead of `packed`, of lstm alone
  std::optional<View> bias;  // float32 [directions * hidden]: start of the last gate of gru_reset_after
  std::optional<RealIn> h, c;  // [directions, batch, hidden]; none: 0
  std::optional<View> lengths;  // int32 [batch]: steps of each row; none: all
  std::optional<RealOut> y;  // [steps, directions, batch, hidden]
  std::optional<RealOut> last_h, last_c;  // [directions, batch, hidden]
  int threads = 1;  // that share the work
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_recurrent(const FloatOps& floats, const FloatGemmOps& products,
                                     const RecurrentSpec& spec);

}  // namespace intact
