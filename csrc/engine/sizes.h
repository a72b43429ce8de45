// What a step asks about the sizes of what it reads, once those of the plan's inputs are known.
#pragma once

#include <optional>
#include <vector>

#include "engine/failure.h"
#include "engine/plan.h"

namespace intact::engine {

// Sizes contradict each other behind a part that was run on zeros.
struct SizesUnknown : Failure {
  explicit SizesUnknown(const Failure& failure) : Failure(failure) {}
};

class Sizes {
 public:
  explicit Sizes(const Plan& plan);

  // A tensor's sizes, or a constant's.
  const Shape& of(int value) const {
    return plan_.is_tensor(value) ? shapes_[static_cast<size_t>(value)] : plan_.constant(value).shape;
  }
  // What the plan says about an axis of a tensor; nothing where nobody knows the named size yet.
  std::optional<int64_t> declared(int tensor, int axis) const {
    return plan_.dims.value_of(plan_.tensor(tensor).shape[static_cast<size_t>(axis)], known_);
  }
  int declared_rank(int tensor) const { return plan_.tensor(tensor).rank(); }
  // A size of the plan in numbers; nothing where it is not known.
  std::optional<int64_t> value_of(const Dim& dim) const { return plan_.dims.value_of(dim, known_); }
  std::vector<int64_t> numbers(const std::vector<Dim>& dims) const {
    return plan_.dims.numbers(dims, known_);
  }
  // Stores a tensor's sizes, and learns those of its named dimensions. Throws Failure (INTACT_BAD_SHAPE)
  // where they contradict what the plan says.
  void bind(int tensor, const Shape& shape);
  // The error for a value whose sizes do not fit.
  [[noreturn]] void mismatch(int value, const std::string& got, const std::string& want) const;
  // The sizes of two values under each other: ONNX's multidirectional broadcasting. `b` is named in errors.
  Shape broadcast(int b, const Shape& x, const Shape& y) const;
  // Of the product of [..., i, k] by [..., k, j], leading axes broadcast.
  Shape product_shape(int a, int b) const;

  // From now on sizes are known from runs on zeros: contradictions say that values decide them.
  void begin_guesses() { is_guessed_ = true; }
  bool is_guessed() const { return is_guessed_; }

  std::vector<Shape> shapes() && { return std::move(shapes_); }
  const KnownDims& known_dims() const { return known_; }
  KnownDims known() && { return std::move(known_); }
  const Plan& plan() const { return plan_; }

  std::vector<Shape> made;  // room for what a step makes

 private:
  const Plan& plan_;
  std::vector<Shape> shapes_;
  KnownDims known_;
  bool is_guessed_ = false;
};

// Sizes of all tensors of a plan from those of its inputs.
Sizes infer_sizes(const Plan& plan, const std::vector<Shape>& inputs);

}  // namespace intact::engine
