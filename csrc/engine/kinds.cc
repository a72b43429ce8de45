#include "engine/kinds.h"

#include <algorithm>
#include <iterator>

namespace intact::engine {
namespace {

struct Kind {
  std::string_view name;
  std::unique_ptr<PlanStep> (*read)(Fields&);
};

constexpr Kind kKinds[] = {
#define INTACT_KIND(kind) {#kind, &read_##kind},
#include "engine/kinds.inc"
#undef INTACT_KIND
};

// Those that code outside of kernels runs.
constexpr std::string_view kForeign[] = {"onnx", "call"};

}  // namespace

std::unique_ptr<PlanStep> read_step(std::string_view kind, Fields& fields) {
  for (const Kind& one : kKinds) {
    if (one.name == kind) return one.read(fields);
  }
  return nullptr;
}

bool is_kind(std::string_view kind) {
  return std::find(std::begin(kForeign), std::end(kForeign), kind) != std::end(kForeign) ||
         std::any_of(std::begin(kKinds), std::end(kKinds), [&](const Kind& one) { return one.name == kind; });
}

}  // namespace intact::engine
