// Steps that may be nothing but another way to see memory: the layout looks at them.
#pragma once

#include "engine/plan_step.h"

namespace intact::engine {

struct Reshape final : PlanStep {
  explicit Reshape(Fields& fields);
  Shape output_shape(const Sizes& sizes) const override;
  void bind(Binding& binding) const override;
  int x, y;
};

struct Transpose final : PlanStep {
  explicit Transpose(Fields& fields);
  void bind(Binding& binding) const override;
  int x, y;
  std::vector<int64_t> perm;
};

struct Slice final : PlanStep {
  explicit Slice(Fields& fields);
  Shape output_shape(const Sizes& sizes) const override;
  void bind(Binding& binding) const override;
  int x, y;
  std::vector<int64_t> starts, steps;
};

struct Concat final : PlanStep {
  explicit Concat(Fields& fields);
  Shape output_shape(const Sizes& sizes) const override;
  void bind(Binding& binding) const override;
  std::vector<int> xs;
  int y;
  int64_t axis;
};

}  // namespace intact::engine
