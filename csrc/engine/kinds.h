// The kinds of steps, by the name that plan files have for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan_step.h"

namespace intact::engine {

// nullptr for a kind that this library does not run; `fields` are then left alone.
std::unique_ptr<PlanStep> read_step(std::string_view kind, Fields& fields);

// All kinds that this library runs.
std::vector<std::string> native_kinds();

// Whether plan files have such a kind at all.
bool is_kind(std::string_view kind);

#define INTACT_KIND(kind) std::unique_ptr<PlanStep> read_##kind(Fields& fields);
#include "engine/kinds.inc"
#undef INTACT_KIND

}  // namespace intact::engine
