// The positions of the last tokens of sequences.
#pragma once

#include "engine/kinds/views.h"

namespace intact::engine {

inline void check_last(const Sizes& sizes, int last, int64_t batch) {
  const Shape& shape = sizes.of(last);
  const bool fits = shape[0] == batch && (shape.rank == 1 || shape[1] == 1);
  if (!fits) sizes.mismatch(last, "shape " + text_of(shape), "a position for each sequence");
}

inline View view_last(Binding& binding, int last) {
  View view = binding.view(last);
  view.rank = 1;
  return view;
}

}  // namespace intact::engine
