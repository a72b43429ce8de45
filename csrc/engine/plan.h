// A plan as a file says it, checked: steps in order, the tensors between them, and the constants that they
// name. Nothing depends on sizes of inputs.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/constants.h"
#include "engine/container.h"
#include "engine/plan_step.h"
#include "engine/selftest.h"

namespace intact::engine {

class Plan {
 public:
  // Throws Failure: INTACT_BAD_FILE for what no writer of plans makes; INTACT_UNSUPPORTED for a plan with
  // parts that ONNX Runtime or Python runs, which names them.
  Plan(Bytes file, const std::string& where);
  // The same JSON for a host, which has the arrays and runs what it calls a "part".
  // `is_whole`: every tensor is asked for, so that no steps run as one.
  Plan(const std::string& json, Host& host, bool is_whole);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  bool is_tensor(int value) const { return value >= 0 && static_cast<size_t>(value) < tensors.size(); }
  bool is_constant(int value) const { return value >= 0 && !is_tensor(value); }
  const TensorRecord& tensor(int value) const { return tensors[static_cast<size_t>(value)]; }
  const ConstantRecord& constant(int value) const {
    return constants[static_cast<size_t>(value) - tensors.size()];
  }
  const std::string& name(int value) const {
    return is_tensor(value) ? tensor(value).name : constant(value).name;
  }
  // The grid of a tensor of codes; nullptr for others and for constants.
  const Codes* grid(int value) const {
    return is_tensor(value) && tensor(value).codes ? &*tensor(value).codes : nullptr;
  }
  Bytes array(int value) { return arrays.constant(constant(value)); }
  // Lets go of the pages of constants that nobody has read. The system maps pages around each one that is
  // read, and layers that run on packed weights read a few numbers between weights that they do not need:
  // 3 MB of ResNet-50's 32. Works once.
  void release_unread();

  // Values are numbered: tensors, then constants.
  std::vector<TensorRecord> tensors;
  std::vector<ConstantRecord> constants;
  std::vector<std::unique_ptr<PlanStep>> steps;
  std::vector<int> inputs, outputs;
  DimTable dims;
  Arrays arrays;
  // Of each tensor the steps that read it, once for each time, and the step that makes it; -1: none does.
  std::vector<std::vector<int>> readers;
  std::vector<int> makers;
  std::optional<SelfTest> selftest;
  // Outputs that no step reads: the sizes that a file declares of them do not bind what is made.
  std::vector<bool> is_loose;
  // Steps whose numbers no input decides, but sizes.
  std::vector<bool> of_sizes;

 private:
  void find_steps_of_sizes();
  void finish(bool is_whole);
  void connect();

  Container container_;
  std::atomic<bool> is_released_{false};
};

// Visits the tensors that a step reads, then those that it makes.
template <class Visit>
void each_tensor(const Plan& plan, const PlanStep& step, const Visit& visit) {
  for (const auto* values : {&step.reads, &step.writes}) {
    for (const int value : *values) {
      if (plan.is_tensor(value)) visit(value);
    }
  }
}

}  // namespace intact::engine
