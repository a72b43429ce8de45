#include "engine/held.h"

#include <algorithm>

namespace intact::engine {
namespace {

bool has_output(const std::vector<int>& outputs, int tensor) {
  return std::count(outputs.begin(), outputs.end(), tensor) > 0;
}

// Tensors whose memory no run writes: all that lie there are made by steps that run once, and none is an
// output.
std::vector<bool> find_unwritten(const Plan& plan, const Layout& layout, const std::vector<bool>& made_once) {
  std::vector<bool> unwritten = made_once;  // by root
  for (size_t v = 0; v < made_once.size(); ++v) {
    const auto root = static_cast<size_t>(layout.roots[v]);
    const bool is_written = !made_once[v] || has_output(plan.outputs, static_cast<int>(v));
    if (is_written) unwritten[root] = false;
  }
  std::vector<bool> found(made_once.size());
  for (size_t v = 0; v < found.size(); ++v) found[v] = unwritten[static_cast<size_t>(layout.roots[v])];
  return found;
}

}  // namespace

Held find_held(const Plan& plan, const Layout& layout) {
  Held found{plan.of_sizes, std::vector<bool>(plan.tensors.size()), false};
  const auto has_some = [&] { return std::count(found.steps.begin(), found.steps.end(), true) > 0; };
  for (bool changed = has_some(); changed;) {
    changed = false;
    std::vector<bool> made_once(plan.tensors.size());
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      for (const int v : plan.steps[i]->writes) made_once[static_cast<size_t>(v)] = found.steps[i];
    }
    found.tensors = find_unwritten(plan, layout, made_once);
    const auto stays = [&](int v) { return !plan.is_tensor(v) || found.tensors[static_cast<size_t>(v)]; };
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const PlanStep& step = *plan.steps[i];
      if (!found.steps[i] || (std::all_of(step.reads.begin(), step.reads.end(), stays) &&
                              std::all_of(step.writes.begin(), step.writes.end(), stays))) {
        continue;
      }
      found.steps[i] = false;
      changed = true;
    }
  }
  found.has_some = has_some();
  return found;
}

}  // namespace intact::engine
