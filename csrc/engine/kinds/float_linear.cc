// x [..., in] times constant weights float32 [in, out], from the bias [out] on (N51): Gemm, MatMul.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/float_filters.h"
#include "steps/float_matmul.h"

namespace intact::engine {
namespace {

struct FloatLinear final : PlanStep {
  explicit FloatLinear(Fields& f)
      : PlanStep(f, {.strided = true, .writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        weight(f.constant("weight", Type::f32, 2)),
        bias(f.constant("bias", Type::f32, 1, true)) {}

  void bind(Binding& binding) const override {
    const FloatGemmOps& ops = *binding.kernels.float_gemm;
    const Shape& w = binding.shape(weight);
    const Bytes packed = binding.packed(
        weight, intact::name_of(&ops),
        [&](const Bytes& b) { return pack_matrices(ops, b.as<float>().data(), 1, w[0], w[1]); }, Type::f32);
    FloatMatMulSpec spec{binding.view(x), binding.view(y), {}, packed_floats(packed), {}};
    if (bias != kNoValue) spec.start = binding.constant(bias);
    binding.add(make_float_matmul(ops, *binding.kernels.transpose, spec));
  }

  int x, y, weight, bias;
};

}  // namespace

std::unique_ptr<PlanStep> read_float_linear(Fields& fields) { return std::make_unique<FloatLinear>(fields); }

}  // namespace intact::engine
