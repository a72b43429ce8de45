// One (start, step) for each axis; y's shape says how many: to the end, where that size is new.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/moved.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"

namespace intact::engine {
namespace {

// How many elements there are to the end of an axis.
int64_t rest(int64_t size, int64_t start, int64_t hop) {
  if (hop > 0) return start < size ? (size - start - 1) / hop + 1 : 0;
  return start / -hop + 1;
}

// Whether so many elements from `start` on are within `size`.
bool holds(int64_t size, int64_t start, int64_t hop, int64_t count) {
  if (count == 0) return true;
  if (count < 0 || start < 0 || start >= size) return false;
  if (count == 1 || hop == 0) return true;
  const int64_t room = hop > 0 ? size - 1 - start : start;
  return count - 1 <= room / (hop > 0 ? hop : -hop);
}

}  // namespace

Slice::Slice(Fields& f)
    : PlanStep(f, {.follows = true}),
      x(f.reads("x")),
      y(f.writes("y")),
      starts(f.integers("starts")),
      steps(f.integers("steps")) {}

Shape Slice::output_shape(const Sizes& sizes) const {
  Shape made;
  for (int i = 0; i < sizes.of(x).rank; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto want = sizes.declared(y, i);
    const int64_t size = sizes.of(x)[i];
    const bool open = !want && steps[at] == 0;
    const int64_t count = want ? *want : open ? -1 : rest(size, starts[at], steps[at]);
    if (!holds(size, starts[at], steps[at], count)) {
      sizes.mismatch(
          x, "size " + std::to_string(size) + " in dimension " + std::to_string(i),
          "one that holds " + std::to_string(count) + " elements from " + std::to_string(starts[at]));
    }
    made.push(count);
  }
  return made;
}

void Slice::bind(Binding& binding) const {
  move(binding, x, slice_of(binding.view(x), starts, binding.shape(y), steps), y, binding.view(y));
}

std::unique_ptr<PlanStep> read_slice(Fields& fields) { return std::make_unique<Slice>(fields); }

}  // namespace intact::engine
