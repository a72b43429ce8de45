// A plan made native for one set of input sizes: a program, and the memory of its runs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/binding.h"
#include "engine/micro_batches.h"
#include "engine/sizes.h"
#include "runtime/context.h"

namespace intact::engine {

// What all sessions of an open plan share.
struct OpenPlan {
  OpenPlan(Bytes file, const std::string& where, int threads, const char* max_isa);

  Plan plan;
  const LayoutPlan layout;
  const Kernels kernels;
  ThreadPool pool;
};

// Which inputs and outputs of codes a caller passes and gets as float32. Empty: none.
struct FloatPorts {
  std::vector<bool> inputs, outputs;
};

// A native step, as profiles name it.
struct StepLabel {
  std::string name, kind, kernel;
};

class Bound {
 public:
  // Throws Failure, or what makers of native steps throw.
  Bound(OpenPlan& open, const std::vector<Shape>& inputs, FloatPorts floats = {});
  Bound(OpenPlan& open, Sizes sizes, FloatPorts floats = {});
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  // Arrays of the ports' sizes. Once `cancelled` is true, the run stops before its next native step. Throws
  // Failure.
  // `seconds`: one number per native step, or nullptr.
  void run(const void* const* inputs, void* const* outputs, const std::atomic<bool>& cancelled,
           double* seconds = nullptr);
  size_t step_count() const { return program_.steps().size(); }
  StepLabel label(size_t step) const;
  const Shape& shape(int tensor) const { return shapes_[static_cast<size_t>(tensor)]; }
  // Of the arena, scratch and what was made for these sizes.
  size_t workspace_bytes() const;

 private:
  // The input or output that a native step copies; -1: it is of a step of the plan.
  struct Copied {
    int value;
    bool is_input;
  };

  void place_tensors(const ArenaPlan& arena);
  void choose_layout();
  void make_steps(int64_t arena);
  void begin_times(const MicroBatches& steps, Binding& binding);
  Place window(const MicroBatches& steps, int tensor);
  void check_sizes() const;
  size_t nbytes(int tensor) const;
  size_t port_nbytes(int tensor, bool is_float) const;

  OpenPlan& open_;
  const FloatPorts floats_;
  const KnownDims known_;
  const std::vector<Shape> shapes_;
  std::vector<MicroBatches> repeated_;
  Layout layout_;
  std::vector<Place> places_;
  std::vector<uint32_t> inputs_, outputs_;  // blocks
  std::vector<const PlanStep*> labels_;     // of each native step; nullptr: a copy of an input or output
  std::vector<Copied> copied_;              // of each native step
  Owners owners_;
  Program program_;
  std::unique_ptr<Context> context_;
};

}  // namespace intact::engine
