// Product of float32 [..., i, k] by [..., k, j], leading axes broadcast (N51); a or b may name a constant.
// Rows by one matrix for all of them are one matrix.
#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/product_spec.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/float_matmul.h"

namespace intact::engine {
namespace {

struct FloatMatMul final : PlanStep {
  explicit FloatMatMul(Fields& f)
      : PlanStep(f, {.strided = true, .writes_parts = true}),
        a(f.operand("a")),
        b(f.operand("b")),
        y(f.writes("y")) {}

  void check(const Checker& checker) const override {
    checker.that(checker.rank(a) >= 2 && checker.rank(b) >= 2, "rank 2 or more");
    checker.floats(a, b, y);
  }

  Shape output_shape(const Sizes& sizes) const override { return sizes.product_shape(a, b); }

  void bind(Binding& binding) const override {
    const Shape& shape = binding.shape(y);
    View to = binding.view(y), left = matrices_under(a, shape, binding),
         right = matrices_under(b, shape, binding);
    bool one_matrix = true;
    for (int i = 0; i < to.rank - 2; ++i) one_matrix = one_matrix && right.strides[i] == 0;
    View rows, made;
    if (one_matrix && rows_of(left, rows) && rows_of(to, made)) {
      const auto last = static_cast<size_t>(right.rank - 2);
      right = part_of(right, right.offset, {right.sizes[last], right.sizes[last + 1]},
                      {right.strides[last], right.strides[last + 1]});
      left = rows;
      to = made;
    }
    binding.add(make_float_matmul(*binding.kernels.float_gemm, *binding.kernels.transpose,
                                  {left, to, right, {}, {}}));
  }

  int a, b, y;
};

}  // namespace

std::unique_ptr<PlanStep> read_float_matmul(Fields& fields) { return std::make_unique<FloatMatMul>(fields); }

}  // namespace intact::engine
