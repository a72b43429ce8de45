// All steps of an LSTM, a GRU or a simple recurrent network, in all its directions: numerics.recurrence
// (N52). What inputs gave, in x, is where the sums over states begin.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/float_gemm/float_gemm.h"
#include "kernels/float_steps/float_steps.h"
#include "steps/common/real_views.h"

namespace intact {

enum class Cell : uint8_t { gru, gru_reset_after, lstm, rnn_relu, rnn_tanh };
constexpr size_t kCells = 5;

struct RecurrentSpec {
  Cell cell;
  int64_t hidden;
  std::vector<bool> reverse;  // of each direction
  View x;  // float32 [steps, batch, directions * gates * hidden]
  View packed;  // float32: of each direction the weights of states, as panels; of gru the last gate apart
  std::optional<View> bias;  // float32 [directions * hidden]: where the last gate of gru_reset_after begins
  std::optional<RealIn> h, c;  // [directions, batch, hidden]; 0 where there are none
  std::optional<View> lengths;  // int32 [batch]: steps of each row; all where there are none
  std::optional<RealOut> y;  // [steps, directions, batch, hidden]
  std::optional<RealOut> last_h, last_c;  // [directions, batch, hidden]
  int threads = 1;  // that will share the work
};

// Throws std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_recurrent(const FloatOps& floats, const FloatGemmOps& products,
                                     const RecurrentSpec& spec);

}  // namespace intact
