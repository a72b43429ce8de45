// The same elements in ONNX's order under y's shape (Flatten, Squeeze, ... too). Nothing runs where they lie
// in that order on both sides.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/moved.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"

namespace intact::engine {

Reshape::Reshape(Fields& f) : PlanStep(f, {}), x(f.reads("x")), y(f.writes("y")) {}

// As the plan says; at most one dimension is what is left. No elements leave any number: then it is what x's
// other axes hold, so that [0, 4, 2] becomes [0, 8].
Shape Reshape::output_shape(const Sizes& sizes) const {
  const Shape& from = sizes.of(x);
  Shape made;
  int unknown = -1, zeros = 0;
  bool fits = true;
  int64_t known = 1, nonzero = 1;
  for (int i = 0; i < sizes.declared_rank(y); ++i) {
    const auto size = sizes.declared(y, i);
    if (!size) {
      fits = fits && unknown < 0;
      unknown = i;
    } else if (*size == 0) {
      ++zeros;
    } else {
      nonzero = *size < 0 ? kMostSize : product(nonzero, *size);
    }
    made.push(size.value_or(0));
  }
  known = zeros > 0 ? 0 : nonzero;
  int64_t left = elements(from);
  fits = fits && (unknown >= 0 && known > 0 ? left % known == 0 : left == known);
  if (!fits) {
    sizes.mismatch(x, std::to_string(left) + " elements",
                   "as many as the shape of '" + sizes.plan().name(y) + "'");
  }
  if (unknown < 0) return made;
  if (known == 0) {
    std::vector<int64_t> sorted(from.begin(), from.end());
    std::sort(sorted.begin(), sorted.end());
    left = product({sorted.begin() + std::min(zeros, from.rank), sorted.end()});
    known = nonzero;
  }
  made[unknown] = left / known;
  return made;
}

void Reshape::bind(Binding& binding) const {
  View from = binding.view(x), to = binding.view(y);
  const Shape have = sizes_of(from), want = sizes_of(to);
  Axes strides;
  if (same_strides_under(have, strides_of(from), want, strides)) {
    from = part_of(from, from.offset, want, strides);
  } else if (is_dense(to)) {
    to = dense_under(to, have);
  } else if (is_dense(from)) {
    from = dense_under(from, want);
  } else {
    const View rows = binding.temporary(to.type, have);
    move(binding, x, from, x, rows);
    from = dense_under(rows, want);
  }
  move(binding, x, from, y, to);
}

std::unique_ptr<PlanStep> read_reshape(Fields& fields) { return std::make_unique<Reshape>(fields); }

}  // namespace intact::engine
