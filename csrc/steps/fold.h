// The sum, product, maximum or minimum of all elements along an axis (N60).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/step.h"
#include "steps/common/named_kinds.h"

namespace intact {

// y = x[0] + x[1] + ... along the axis, or the product, maximum or minimum, one element after the other.
// Integers wrap around. No elements give 0, 1, and the lowest and highest number.
enum class FoldKind : uint8_t { sum, prod, max, min };
constexpr const char* kFoldNames[] = {"sum", "prod", "max", "min"};
constexpr std::optional<FoldKind> fold_kind_of(std::string_view name) {
  return find_kind<FoldKind>(kFoldNames, name);
}

struct FoldSpec {
  View x, y;  // of one type: i32, i64, or f32 for products; the axis has size 1 in y
  int axis;
  FoldKind kind;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_fold(const FoldSpec& spec);

}  // namespace intact
