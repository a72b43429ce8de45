// Short convolutions of each column over tokens, with a state (N77).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/float_gemm/float_gemm.h"
#include "runtime/step.h"

namespace intact {

// All are f32, with neighbours side by side. Rows of x and y are tokens [sequences * tokens, columns], those
// of states [sequences * (taps - 1), columns]. `past` may be the memory of `state`.
struct CausalConvSpec {
  View x, y, state;
  View weight;  // [taps, columns], dense
  std::optional<View> past, bias;  // of bias [columns], dense
  int64_t sequences;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_causal_conv(const FloatGemmOps& ops, const CausalConvSpec& spec);

}  // namespace intact
