// A plan made native for one set of input sizes: a program, and the memory of its runs.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/binding.h"
#include "engine/caller_arrays.h"
#include "engine/micro_batches.h"
#include "engine/sizes.h"
#include "runtime/context.h"

namespace intact::engine {

// What a plan is bound on.
struct Target {
  Plan& plan;
  const LayoutPlan& layout;
  const Kernels& kernels;
  Layers& layers;
  ThreadPool& pool;
  Host* host = nullptr;
  bool is_whole = false;  // every tensor keeps its memory
  int64_t most_bytes = kMostEngineBytes;  // of the arena, inputs and outputs
  int64_t near_bytes = kNearBytes;        // of activations that stay next to each core
};

// What all sessions of an open plan share.
struct OpenPlan {
  // `host`: whose threads they are; without a callback they are the pool's own.
  OpenPlan(Bytes file, const std::string& where, int threads, const char* max_isa, const HostPool& host = {});
  Target target() { return {plan, layout, kernels, layers, pool}; }

  Plan plan;
  const LayoutPlan layout;
  const Kernels kernels;
  Layers layers;
  ThreadPool pool;
};

// What runs between the native steps [.., at) and [at, ..): a part.
struct Break {
  size_t at;
  const PlanStep* part;
};

// A native step, as profiles name it.
struct StepLabel {
  std::string name, kind, kernel;
};

class Bound {
 public:
  // Throws Failure, or what makers of native steps throw.
  Bound(const Target& target, const std::vector<Shape>& inputs, const CallerArrays& arrays = {});
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  // Bytes of memory that `run` needs (Workspace).
  size_t run_bytes() const { return Workspace::bytes_for(program_, target_.pool.threads()); }
  // Refuses memory of fewer bytes.
  void check_room(size_t bytes) const;
  // Allocates what `run` needs, in memory that bindings for other sizes may share, and starts its threads. To
  // be called again where another one was prepared in that memory meanwhile.
  void prepare_run(const std::shared_ptr<Workspace>& workspace = make_workspace());
  // Arrays of the ports' sizes, by their elements (0, ..., 0). Once `cancelled` is true, the run stops before
  // its next native step. Throws Failure.
  // `seconds`: one number per native step, or nullptr.
  void run(const void* const* inputs, void* const* outputs, const std::atomic<bool>& cancelled,
           double* seconds = nullptr);
  size_t step_count() const { return program_.steps().size(); }
  StepLabel label(size_t step) const;
  const std::vector<Shape>& shapes() const { return shapes_; }
  const Shape& shape(int tensor) const { return shapes_[static_cast<size_t>(tensor)]; }
  // What the binding itself takes, about, beside the memory of runs: steps, shapes and what was made for
  // these sizes.
  size_t nbytes() const;

  const Program& program() const { return program_; }
  const std::vector<uint32_t>& input_blocks() const { return inputs_; }
  const std::vector<uint32_t>& output_blocks() const { return outputs_; }
  const std::vector<OuterArray>& inputs() const { return outer_inputs_; }
  const std::vector<OuterArray>& outputs() const { return outer_outputs_; }
  // Of each native step; nullptr: a copy of an input or output.
  const std::vector<const PlanStep*>& labels() const { return labels_; }
  const std::vector<Break>& breaks() const { return breaks_; }
  const Place& place(int tensor) const { return places_[static_cast<size_t>(tensor)]; }
  const Axes& strides(int tensor) const { return layout_.frames[static_cast<size_t>(tensor)].strides; }
  // How often all steps from one on run, up to the next one that is named here.
  const std::map<size_t, size_t>& repeats() const { return repeats_; }
  size_t held_bytes() const { return held_bytes_; }
  // What runs read of what was made when this was bound: the block, and its memory.
  uint32_t held_block() const { return held_block_; }
  std::span<const uint8_t> held_values() const { return held_values_.bytes; }

 private:
  // The input or output that a native step copies; -1: it is of a step of the plan.
  struct Copied {
    int value;
    bool is_input;
  };

  void place_tensors(const ArenaPlan& arena);
  // Runs the steps that run once.
  void hold_values();
  void run_once(const std::vector<const PlanStep*>& steps);
  void choose_layout();
  Bound(const Target& target, Sizes sizes, const CallerArrays& arrays);
  std::vector<OuterArray> outer_arrays(const std::vector<int>& ports, const std::vector<CallerArray>& arrays,
                                       bool are_outputs) const;
  void make_steps(int64_t arena, int64_t outside);
  void begin_times(const MicroBatches& steps, Binding& binding);
  Place window(const MicroBatches& steps, int tensor);
  // Bytes of inputs and outputs.
  int64_t check_sizes() const;
  void check_bytes(int64_t nbytes) const;
  size_t tensor_bytes(int tensor) const;

  const Target target_;
  const KnownDims known_;
  const std::vector<Shape> shapes_;
  std::vector<OuterArray> outer_inputs_, outer_outputs_;
  std::vector<MicroBatches> repeated_;
  Layout layout_;
  Held held_;
  Bytes held_values_;  // memory of what is held
  uint32_t held_block_ = 0;
  std::vector<Place> places_;
  std::vector<uint32_t> inputs_, outputs_;  // blocks
  std::vector<const PlanStep*> labels_;
  std::vector<Copied> copied_;  // of each native step
  std::vector<Break> breaks_;
  std::map<size_t, size_t> repeats_;
  size_t held_bytes_ = 0;
  Owners owners_;
  Program program_;
  std::unique_ptr<Context> context_;
};

}  // namespace intact::engine
