// A function of two floats, element by element (N48, N49).
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"
#include "steps/common/named_kinds.h"
#include "steps/common/real_views.h"

namespace intact {

constexpr const char* kBinaryNames[kBinaryKinds] = {"add", "sub", "mul", "div", "max", "min", "slope"};
constexpr std::optional<BinaryKind> binary_kind_of(std::string_view name) {
  return find_kind<BinaryKind>(kBinaryNames, name);
}

struct BinarySpec {
  RealIn a, b;
  RealOut y;
  BinaryKind kind;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_binary(const FloatOps& ops, const TransposeOps& turn, const BinarySpec& spec);

}  // namespace intact
