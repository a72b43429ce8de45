// Product of two activations of codes, [..., i, k] by [..., k, j], leading axes broadcast, read where they
// lie.
#include "engine/kinds.h"
#include "engine/kinds/product_spec.h"
#include "engine/kinds/views.h"

namespace intact::engine {

MatMul::MatMul(Fields& f)
    : PlanStep(f, {.strided = true}), a(f.reads("a")), b(f.reads("b")), y(f.writes("y")), epilogue(f) {}

void MatMul::check(const Checker& checker) const { epilogue.check(checker, 1); }

View matrices_under(int value, const Shape& shape, Binding& binding) {
  Shape wanted = shape;
  const Shape& own = binding.shape(value);
  for (int i = 1; i <= 2; ++i) wanted[wanted.rank - i] = own[own.rank - i];
  return spread(binding.view(value), wanted);
}

MatMulSpec product_spec(const MatMul& step, Binding& binding, const View& a, int32_t a_zero, const View& y) {
  return {a,
          matrices_under(step.b, binding.shape(step.y), binding),
          y,
          {a_zero, binding.codes(step.b).zero()},
          binding.part<EpilogueSpec>("product." + std::to_string(step.y), [&] {
            return settle_product(bind_epilogue(step.epilogue, step.y, binding, {}));
          })};
}

void MatMul::bind(Binding& binding) const {
  const View left = matrices_under(a, binding.shape(y), binding);
  binding.add(make_matmul(*binding.kernels.matmul,
                          product_spec(*this, binding, left, binding.codes(a).zero(), binding.view(y))));
}

std::unique_ptr<PlanStep> read_matmul(Fields& fields) { return std::make_unique<MatMul>(fields); }

}  // namespace intact::engine
