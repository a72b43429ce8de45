// Floats x [..., in] times the floats of weights in blocks along `in` (N67), from the bias on (N51).
#include "steps/block_float_linear.h"

#include "engine/kinds.h"
#include "engine/kinds/block_activations.h"
#include "engine/kinds/block_constants.h"
#include "engine/kinds/packed_blocks.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"

namespace intact::engine {
namespace {

struct BlockFloatLinear final : PlanStep {
  explicit BlockFloatLinear(Fields& f)
      : PlanStep(f, {.writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        w(f),
        bias(f.constant("bias", Type::f32, 1, true)) {}

  void bind(Binding& binding) const override {
    const BlockCut cut(w.inputs, w.inputs, w.block);
    const PackedBlocks& packed = PackedBlocks::of(binding, w);
    const RowsWritten to(binding, y);
    const BlockFloatLinearSpec spec{rows_read(binding, x), to.rows(), packed.float_weights(binding, bias)};
    binding.add(
        make_block_float_linear(*binding.kernels.float_gemm, *binding.kernels.block_gemm_of_few, spec, cut));
    to.finish(binding);
  }

  int x, y;
  BlockConstants w;
  int bias;
};

}  // namespace

std::unique_ptr<PlanStep> read_block_float_linear(Fields& fields) {
  return std::make_unique<BlockFloatLinear>(fields);
}

}  // namespace intact::engine
