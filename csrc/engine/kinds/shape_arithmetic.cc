// What follows from sizes alone: int64 vectors of numbers, free sizes and expressions of these, worked out
// when a plan is bound; a run copies what came out. With an ONNX model of sizes it needs ONNX Runtime.
#include <algorithm>

#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/copy.h"

namespace intact::engine {
namespace {

struct ShapeArithmetic final : PlanStep {
  explicit ShapeArithmetic(Fields& f) : PlanStep(f, {}), inputs(f.texts("inputs")) {
    for (const Json& vector : f.list("sizes").items) {
      if (!vector.is(Json::Kind::list)) fail_file(f.where(), text_of(vector), "a list of sizes");
      auto& dims = sizes.emplace_back();
      for (const Json& dim : vector.items) dims.push_back(f.dim(dim));
    }
    ys = f.many("ys", Role::write);
    for (const std::string& name : f.names("ys")) made_of.push_back(place_of(name));
    model = f.constant("model", Type::u8, 1, true);
  }

  // Which of the vectors a name is; their number for one that the model makes.
  size_t place_of(std::string_view name) const {
    return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), name) - inputs.begin());
  }

  void check(const Checker& checker) const override {
    checker.that(!ys.empty() && inputs.size() == sizes.size(), "outputs, and sizes for every input");
    for (size_t i = 0; i < ys.size(); ++i) {
      checker.that(made_of[i] < sizes.size(), "a model that makes its outputs");
      checker.that(checker.is(ys[i], Type::i64), "numbers of int64");
    }
  }

  void made_shapes(const Sizes& known, std::vector<Shape>& made) const override {
    for (size_t i = 0; i < ys.size(); ++i) {
      for (const Dim& dim : sizes[made_of[i]]) {
        if (!known.value_of(dim))
          fail(INTACT_BAD_SHAPE, where(), "a size that nothing tells", "sizes that inputs tell");
      }
      made.push_back({static_cast<int64_t>(sizes[made_of[i]].size())});
    }
  }

  void bind(Binding& binding) const override {
    for (size_t i = 0; i < ys.size(); ++i) {
      std::vector<int64_t> values;
      for (const Dim& dim : sizes[made_of[i]])
        values.push_back(*binding.plan.dims.value_of(dim, binding.known));
      const View held = binding.hold(values, Type::i64, {static_cast<int64_t>(values.size())});
      binding.add(make_copy(*binding.kernels.transpose, {held, binding.view(ys[i])}));
    }
  }

  std::vector<std::string> inputs;
  std::vector<std::vector<Dim>> sizes;
  std::vector<size_t> made_of;  // of each output, which of the vectors it is
  std::vector<int> ys;
  int model;
};

}  // namespace

std::unique_ptr<PlanStep> read_shape_arithmetic(Fields& fields) {
  auto step = std::make_unique<ShapeArithmetic>(fields);
  if (step->model != kNoValue) return nullptr;
  return step;
}

}  // namespace intact::engine
