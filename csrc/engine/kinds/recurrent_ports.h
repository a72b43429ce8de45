// What kinds of recurrent layers have in common: what they read and make beside their weights
// [directions, gates * hidden, hidden], and views with the batch last but one, whatever comes first in the
// graph.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/binding.h"
#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/recurrent.h"

namespace intact::engine {

struct RecurrentPorts {
  static constexpr int kState[] = {1, 0, 2}, kStates[] = {1, 2, 0, 3};

  explicit RecurrentPorts(Fields& f)
      : x(f.reads("x")),
        reverse(f.truths("reverse")),
        h(f.operand("h", true)),
        c(f.operand("c", true)),
        lengths(f.operand("lengths", true)),
        y(f.writes("y", true)),
        last_h(f.writes("last_h", true)),
        last_c(f.writes("last_c", true)),
        batch_first(f.truth("batch_first")) {}

  // All of a step but its weights.
  RecurrentSpec spec(Binding& binding, Cell cell, int64_t hidden) const {
    RecurrentSpec made{};
    made.cell = cell;
    made.hidden = hidden;
    made.reverse = reverse;
    made.x = ordered(binding.view(x), kState);
    made.h = state_in(h, binding);
    made.c = state_in(c, binding);
    if (lengths != kNoValue) made.lengths = binding.view(lengths);
    made.y = state_out(y, kStates, binding);
    made.last_h = state_out(last_h, kState, binding);
    made.last_c = state_out(last_c, kState, binding);
    made.threads = binding.threads();
    return made;
  }

  int x;
  std::vector<bool> reverse;
  int h, c, lengths, y, last_h, last_c;
  bool batch_first;

 private:
  View ordered(const View& view, std::span<const int> order) const {
    return batch_first ? turned(view, order) : view;
  }
  std::optional<RealIn> state_in(int value, Binding& binding) const {
    if (value == kNoValue) return std::nullopt;
    RealIn state = binding.real_in(value);
    state.view = ordered(state.view, kState);
    return state;
  }
  std::optional<RealOut> state_out(int value, std::span<const int> order, Binding& binding) const {
    if (value == kNoValue) return std::nullopt;
    RealOut state = binding.real_out(value);
    state.view = ordered(state.view, order);
    return state;
  }
};

}  // namespace intact::engine
