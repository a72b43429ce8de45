#include "engine/sizes.h"

#include "engine/failure.h"

namespace intact::engine {

Sizes::Sizes(const Plan& plan) : plan_(plan), shapes_(plan.tensors.size()), known_(plan.dims.size()) {}

void Sizes::mismatch(int value, const std::string& got, const std::string& want) const {
  fail(INTACT_BAD_SHAPE, "tensor '" + plan_.name(value) + "'", got, want);
}

void Sizes::bind(int tensor, const Shape& shape) {
  const TensorRecord& record = plan_.tensor(tensor);
  if (record.rank() != shape.rank) {
    mismatch(tensor, std::to_string(shape.rank) + " dimensions " + text_of(shape),
             std::to_string(record.rank()) + " dimensions");
  }
  for (int axis = 0; axis < shape.rank; ++axis) {
    const Dim& dim = record.shape[static_cast<size_t>(axis)];
    const int64_t want = dim.text < 0 ? dim.value : plan_.dims.learn(dim, shape[axis], known_);
    if (want != shape[axis] && !plan_.is_loose[static_cast<size_t>(tensor)]) {
      const std::string name = dim.text < 0 ? "" : " ('" + plan_.dims.text(dim) + "')";
      mismatch(tensor, "size " + std::to_string(shape[axis]) + " in dimension " + std::to_string(axis) + name,
               std::to_string(want));
    }
    if (shape[axis] < 0) mismatch(tensor, "shape " + text_of(shape), "sizes of 0 or more");
  }
  shapes_[static_cast<size_t>(tensor)] = shape;
}

Shape Sizes::broadcast(int b, const Shape& x, const Shape& y) const {
  Shape made;
  made.resize(std::max(x.rank, y.rank));
  for (int i = 1; i <= made.rank; ++i) {
    const int64_t m = i <= x.rank ? x[x.rank - i] : 1, n = i <= y.rank ? y[y.rank - i] : 1;
    if (m != n && m != 1 && n != 1) {
      mismatch(b, "size " + std::to_string(n) + " in dimension " + std::to_string(i) + " from the end",
               std::to_string(m) + " or 1");
    }
    made[made.rank - i] = n == 1 ? m : n;
  }
  return made;
}

Shape Sizes::product_shape(int a, int b) const {
  const Shape &left = of(a), &right = of(b);
  if (left[left.rank - 1] != right[right.rank - 2]) {
    mismatch(b, std::to_string(right[right.rank - 2]) + " rows", std::to_string(left[left.rank - 1]));
  }
  Shape lead_left = left, lead_right = right;
  lead_left.rank -= 2;
  lead_right.rank -= 2;
  Shape made = broadcast(b, lead_left, lead_right);
  made.push(left[left.rank - 2]);
  made.push(right[right.rank - 1]);
  return made;
}

void PlanStep::infer(Sizes& sizes) const {
  std::vector<Shape>& made = sizes.made;
  made.clear();
  try {
    check_sizes(*this, sizes);
    if (!sizes_by_rules(*this, sizes, made)) made_shapes(sizes, made);
  } catch (const Failure& failure) {
    throw failure.at("step '" + name + "'");
  }
  for (size_t i = 0; i < writes.size(); ++i) sizes.bind(writes[i], made[i]);
}

Sizes infer_sizes(const Plan& plan, const std::vector<Shape>& inputs) {
  Sizes sizes(plan);
  for (size_t i = 0; i < plan.inputs.size(); ++i) sizes.bind(plan.inputs[i], inputs[i]);
  for (const auto& step : plan.steps) {
    try {
      step->infer(sizes);
    } catch (const Failure& failure) {
      if (sizes.is_guessed() && failure.status == INTACT_BAD_SHAPE) throw SizesUnknown(failure);
      throw;
    }
  }
  return sizes;
}

}  // namespace intact::engine
