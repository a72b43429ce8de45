// What follows from the sizes of inputs alone, such as positions and masks of a length: the steps that make
// it run once, when a plan is bound, into memory that every run reads.
#pragma once

#include <vector>

#include "engine/layout.h"

namespace intact::engine {

struct Held {
  std::vector<bool> steps;    // of the plan
  std::vector<bool> tensors;  // what they make
  bool has_some = false;
};

// Of the steps whose numbers no input decides (Plan::of_sizes) those that run once: what they make is no
// output, and shares no memory with a tensor that a run makes.
Held find_held(const Plan& plan, const Layout& layout);

}  // namespace intact::engine
