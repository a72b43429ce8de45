// Steps that the program around the engine runs (host.h), between native ones.
#pragma once

#include "engine/host.h"
#include "engine/plan_step.h"

namespace intact::engine {

// A part of a plan: what it reads and makes are tensors, strings among them.
struct Part final : PlanStep {
  Part(Fields& fields, Host& host_);
  // As the plan says, or as the host finds.
  void infer(Sizes& sizes) const override;
  void bind(Binding&) const override {}

  Host& host;
  const bool may_guess;  // sizes come from a run on zeros, which values of the inputs may contradict
};

}  // namespace intact::engine
