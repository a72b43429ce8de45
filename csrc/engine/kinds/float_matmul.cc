// Product of float32 [..., i, k] by [..., k, j], leading axes broadcast (N51); a or b may name a constant.
// Rows by one matrix for all of them are one matrix.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/product_spec.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/float_attention.h"
#include "steps/float_matmul.h"

namespace intact::engine {

FloatMatMul::FloatMatMul(Fields& f)
    : PlanStep(f, {.strided = true, .writes_parts = true}),
      a(f.operand("a")),
      b(f.operand("b")),
      y(f.writes("y")) {}

void FloatMatMul::bind(Binding& binding) const {
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
  binding.add(
      make_float_matmul(*binding.kernels.float_gemm, *binding.kernels.transpose, {left, to, right, {}, {}}));
}

FloatAttention::FloatAttention(std::unique_ptr<PlanStep> scores_, std::unique_ptr<PlanStep> softmax_,
                               std::unique_ptr<PlanStep> product_)
    : PlanStep("float_attention", *product_, {.strided = true, .writes_parts = true}),
      steps{std::move(scores_), std::move(softmax_), std::move(product_)},
      scores(static_cast<const FloatMatMul&>(*steps[0])),
      softmax(static_cast<const Softmax&>(*steps[1])),
      product(static_cast<const FloatMatMul&>(*steps[2])) {
  reads = {scores.a, scores.b, product.b};
  if (softmax.mask != kNoValue) reads.push_back(softmax.mask);
  writes = {product.y};
}

void FloatAttention::infer(Sizes& sizes) const {
  for (const auto& step : steps) step->infer(sizes);
}

// All have the leading axes of the output, which may be more than those of the scores.
void FloatAttention::bind(Binding& binding) const {
  const Shape& shape = binding.shape(product.y);
  Shape between = shape;
  between[shape.rank - 1] = binding.shape(scores.y).last();
  FloatAttentionSpec spec{matrices_under(scores.a, shape, binding),
                          matrices_under(scores.b, shape, binding),
                          matrices_under(product.b, shape, binding),
                          binding.view(product.y),
                          {},
                          static_cast<float>(softmax.gain)};
  if (softmax.mask != kNoValue) spec.mask = spread(binding.real_in(softmax.mask), between);
  binding.add(make_float_attention(*binding.kernels.float_gemm, *binding.kernels.float_steps,
                                   *binding.kernels.transpose, spec));
}

std::unique_ptr<PlanStep> read_float_matmul(Fields& fields) { return std::make_unique<FloatMatMul>(fields); }

}  // namespace intact::engine
