#include "engine/kinds.h"

#include <algorithm>
#include <iterator>

namespace intact::engine {
namespace {

struct Kind {
  std::string_view name;
  std::unique_ptr<PlanStep> (*read)(Fields&);
};

// A library for a few models has a list of its own (csrc/engine/choice.cmake).
#ifndef INTACT_KINDS_FILE
#define INTACT_KINDS_FILE "engine/kinds.inc"
#endif
constexpr Kind kKinds[] = {
#define INTACT_KIND(kind) {#kind, &read_##kind},
#include INTACT_KINDS_FILE
#undef INTACT_KIND
};

// All that plan files have; those that code outside of kernels runs come last.
constexpr std::string_view kNames[] = {
#define INTACT_KIND(kind) #kind,
#include "engine/kinds.inc"
#undef INTACT_KIND
    "onnx", "call"};

}  // namespace

std::unique_ptr<PlanStep> read_step(std::string_view kind, Fields& fields) {
  for (const Kind& one : kKinds) {
    if (one.name == kind) return one.read(fields);
  }
  return nullptr;
}

std::vector<std::string> native_kinds() {
  std::vector<std::string> names;
  for (const Kind& one : kKinds) names.emplace_back(one.name);
  return names;
}

bool is_kind(std::string_view kind) {
  return std::find(std::begin(kNames), std::end(kNames), kind) != std::end(kNames);
}

}  // namespace intact::engine
