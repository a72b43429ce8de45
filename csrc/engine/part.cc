#include "engine/part.h"

#include "engine/binding.h"
#include "engine/failure.h"
#include "engine/fields.h"
#include "engine/sizes.h"
#include "steps/copy.h"

namespace intact::engine {
namespace {

// What the plan says about the sizes of tensors, if it says them all.
std::optional<std::vector<Shape>> declared_shapes(const std::vector<int>& tensors, const Sizes& sizes) {
  std::vector<Shape> shapes;
  for (const int tensor : tensors) {
    Shape& shape = shapes.emplace_back();
    for (int axis = 0; axis < sizes.declared_rank(tensor); ++axis) {
      const auto size = sizes.declared(tensor, axis);
      if (!size) return std::nullopt;
      shape.push(*size);
    }
  }
  return shapes;
}

}  // namespace

Part::Part(Fields& fields, Host& host_)
    : PlanStep(fields, {}), host(host_), may_guess(fields.truth("may_guess")) {
  fields.many("reads", Role::read);
  fields.many("writes", Role::write);
}

void Part::infer(Sizes& sizes) const {
  const auto declared = declared_shapes(writes, sizes);
  const std::vector<Shape> shapes = declared ? *declared : host.part_shapes(*this, sizes);
  const bool is_guess = !declared && may_guess;
  if (is_guess) sizes.begin_guesses();
  for (size_t i = 0; i < writes.size(); ++i) sizes.bind(writes[i], shapes[i]);
}

}  // namespace intact::engine
