// Steps that may run together with others as one native step: fuse.h looks at them.
#pragma once

#include <array>
#include <memory>

#include "engine/kinds/epilogue.h"

namespace intact::engine {

struct MatMul final : PlanStep {
  explicit MatMul(Fields& fields);
  void check(const Checker& checker) const override;
  void bind(Binding& binding) const override;
  int a, b, y;
  EpilogueRecord epilogue;
};

struct FloatMatMul final : PlanStep {
  explicit FloatMatMul(Fields& fields);
  void bind(Binding& binding) const override;
  int a, b, y;
};

struct Softmax final : PlanStep {
  explicit Softmax(Fields& fields);
  void bind(Binding& binding) const override;
  int x, y;
  int64_t axis;
  double gain;
  int mask;
};

// softmax(a b) v of floats, in one step.
struct FloatAttention final : PlanStep {
  FloatAttention(std::unique_ptr<PlanStep> scores_, std::unique_ptr<PlanStep> softmax_,
                 std::unique_ptr<PlanStep> product_);
  void infer(Sizes& sizes) const override;
  void bind(Binding& binding) const override;
  std::array<std::unique_ptr<PlanStep>, 3> steps;
  const FloatMatMul& scores;
  const Softmax& softmax;
  const FloatMatMul& product;
};

struct LayerNorm final : PlanStep {
  explicit LayerNorm(Fields& fields);
  void bind(Binding& binding) const override;
  int x, y, weight, bias;
  double epsilon;
  int residual;
};

struct Quantize final : PlanStep {
  explicit Quantize(Fields& fields);
  void bind(Binding& binding) const override;
  int x, y;
};

struct Binary final : PlanStep {
  explicit Binary(Fields& fields);
  void bind(Binding& binding) const override;
  std::string function;
  int a, b, y;
};

}  // namespace intact::engine
