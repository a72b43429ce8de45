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

SizesModel::SizesModel(Fields& fields, Host& host_) : PlanStep(fields, {}), host(host_) {
  fields.many("writes", Role::write);
}

void SizesModel::infer(Sizes& sizes) const {
  std::vector<Value> values = host.values(*this, sizes);
  for (size_t i = 0; i < writes.size(); ++i) {
    sizes.bind(writes[i], values[i].shape);
    const auto bytes = product(elements(values[i].shape), sizes.plan().tensor(writes[i]).itemsize());
    if (static_cast<int64_t>(values[i].bytes.bytes.size()) != bytes) {
      fail_file(where(), "an array of another type", "what the plan says");
    }
    sizes.hold_value(writes[i], std::move(values[i].bytes));
  }
}

void SizesModel::bind(Binding& binding) const {
  for (const int y : writes) {
    const View held = binding.keep(binding.value(y), binding.tensor(y).type, binding.shape(y));
    binding.add(make_copy(*binding.kernels.transpose, {held, binding.view(y)}));
  }
}

std::unique_ptr<PlanStep> read_hosted_step(std::string_view kind, Fields& fields, Host& host) {
  if (kind == "part") return std::make_unique<Part>(fields, host);
  if (kind == "sizes_model") return std::make_unique<SizesModel>(fields, host);
  return nullptr;
}

}  // namespace intact::engine
