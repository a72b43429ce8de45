// x [..., in] times constant weights int8 [out, in], transposed (Gemm, MatMul): a convolution of an image of
// one row.
#include "engine/kinds.h"
#include "engine/kinds/conv_forms.h"
#include "engine/kinds/low_bytes.h"
#include "engine/kinds/views.h"
#include "steps/copy.h"

namespace intact::engine {
namespace {

// A tensor as (n, h, w, c), its last axis being c; false where that is no row of neighbours.
bool image_of_rows(const View& x, View& found) {
  const auto itemsize = static_cast<int64_t>(bytes_of(x.type));
  Axes sizes{1, 1, 1, x.sizes[x.rank - 1]}, strides{0, 0, 0, x.strides[x.rank - 1]};
  if (sizes[3] <= 1) strides[3] = itemsize;  // a single element leads nowhere
  if (strides[3] != itemsize) return false;
  int at = 3;
  for (int i = x.rank - 1; i-- > 0;) {
    if (at > 0) {
      sizes[--at] = x.sizes[i];
      strides[at] = x.strides[i];
    } else if (x.strides[i] == strides[0] * sizes[0] || sizes_of(x).has(0)) {
      sizes[0] = product(sizes[0], x.sizes[i]);
    } else {
      return false;
    }
  }
  found = part_of(x, x.offset, sizes, strides);
  return true;
}

struct Linear final : PlanStep {
  explicit Linear(Fields& f)
      : PlanStep(f, {.writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        weight(f.constant("weight", Type::i8, 2)),
        epilogue(f),
        low(f.reads("low", true)),
        shift(f.integer("shift")) {
    in_place = {epilogue.residual};
  }

  void check(const Checker& checker) const override {
    check_low(checker, x, low, shift);
    epilogue.check(checker, checker.sizes(weight)[0]);
  }

  void bind(Binding& binding) const override {
    const Shape& w = binding.shape(weight);
    PartialConv part{};
    part.constant = weight;
    part.weight = {w[0], 1, 1, w[1], {}};
    part.x = gathered(x, binding);
    if (low != kNoValue) part.low = gathered(low, binding);
    if (epilogue.residual != kNoValue) part.residual = gathered(epilogue.residual, binding);
    const View to = binding.view(y);
    const LayerRecord layer{epilogue, x, y, low, shift};
    if (image_of_rows(to, part.y)) {
      add_conv(std::move(part), layer, binding);
      return;
    }
    const View dense = binding.temporary(to.type, sizes_of(to));
    image_of_rows(dense, part.y);
    add_conv(std::move(part), layer, binding);
    binding.add(make_copy(*binding.kernels.transpose, {dense, to}));
  }

  // As rows; copied where a row's elements are no neighbours (those of an image of width 2, channels last).
  static View gathered(int value, Binding& binding) {
    const View view = binding.view(value);
    View rows;
    if (image_of_rows(view, rows)) return rows;
    const View dense = binding.temporary(view.type, sizes_of(view));
    binding.add(make_copy(*binding.kernels.transpose, {view, dense}));
    image_of_rows(dense, rows);
    return rows;
  }

  int x, y, weight;
  EpilogueRecord epilogue;
  int low;
  int64_t shift;
};

}  // namespace

std::unique_ptr<PlanStep> read_linear(Fields& fields) { return std::make_unique<Linear>(fields); }

}  // namespace intact::engine
