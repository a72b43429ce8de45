// Which kernel of each family runs here: the best that the machine has, unless a limit or a name says
// otherwise, as intact.kernels.registry chooses.
#pragma once

#include <vector>

#include "kernels/registry.h"

namespace intact::engine {

struct Kernels {
  // Throws Failure (INTACT_BAD_ARGUMENT) for a limit or a name that this machine cannot meet.
  // `max_isa` nullptr: what INTACT_MAX_ISA says. INTACT_FORCE_KERNEL names kernels that are to be taken.
  explicit Kernels(const char* max_isa);

  const BlockGemmOps *block_gemm, *block_gemm_of_few;  // for many rows, and for few
  const ConvertOps* convert;
  const DepthwiseOps* depthwise;
  const DynamicDepthwiseOps* dynamic_depthwise;
  const DynamicQuantizeOps* dynamic_quantize;
  const ElementwiseOps* elementwise;
  const FakeQuantizeOps* fake_quantize;
  const FloatGemmOps* float_gemm;
  const FloatOps* float_steps;
  const MatMulOps* matmul;
  const PointwiseOps* pointwise;
  const PoolOps* pool;
  const QuantizeOps* quantize;
  const ReduceOps* reduce;
  const TransposeOps* transpose;
  const WinogradOps* winograd;
  // Forms that a convolution has beside Winograd's: the chosen one, then others that could run, best first.
  std::vector<const GemmOps*> gemm_forms;
  // What Winograd's form and these are called, in that order.
  std::vector<const char*> conv_names;
  // The same for rows that choose their matrices: of vectors, and not grouped where there is another one.
  std::vector<const GemmOps*> chosen_forms;
};

}  // namespace intact::engine
