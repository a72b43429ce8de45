#include "engine/bound.h"

#include <thread>

#include "engine/failure.h"
#include "engine/part.h"

namespace intact::engine {
namespace {

// The error for a step that no native step can be made of, or none that the program takes.
Failure refusal_of(const PlanStep* step, const std::invalid_argument& error) {
  return {INTACT_UNSUPPORTED, step == nullptr ? "an input or output" : step->where(),
          std::string("'") + error.what() + "'", "a step that native code can run"};
}

// The native steps of a program: one count of owners is enough for all.
using Steps = std::vector<std::unique_ptr<Step>>;

void add_step(Program& program, const std::shared_ptr<Steps>& steps, size_t i, const PlanStep* label) {
  try {
    program.add({steps, (*steps)[i].get()});
  } catch (const std::invalid_argument& error) {
    throw refusal_of(label, error);
  }
}

// The error for a step that met an index of nothing.
Failure index_failure(const PlanStep* step) {
  const std::string where = step == nullptr ? "a copy" : step->where();
  return {INTACT_BAD_INDEX, where + ": got an index of rows that are not there, want rows that are"};
}

}  // namespace

OpenPlan::OpenPlan(Bytes file, const std::string& where, int threads, const char* max_isa,
                   const HostPool& host)
    : plan(std::move(file), where),
      layout(plan),
      kernels(max_isa),
      pool(threads, threads <= static_cast<int>(std::thread::hardware_concurrency()), host) {}

size_t Bound::tensor_bytes(int tensor) const {
  return static_cast<size_t>(product(elements(shape(tensor)), target_.plan.tensor(tensor).itemsize()));
}

std::vector<OuterArray> Bound::outer_arrays(const std::vector<int>& ports,
                                            const std::vector<CallerArray>& arrays, bool are_outputs) const {
  std::vector<OuterArray> found;
  for (size_t i = 0; i < ports.size(); ++i) {
    const CallerArray array = i < arrays.size() ? arrays[i] : CallerArray{};
    found.push_back(outer_array(target_.plan, ports[i], shape(ports[i]), array, are_outputs));
  }
  return found;
}

int64_t Bound::check_sizes() const {
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const int value = static_cast<int>(i);
    if (target_.plan.makers[i] < 0 && !target_.layout.outer[i]) continue;  // nobody names it
    int64_t reach =
        target_.plan.tensor(value).itemsize();  // strides are products of sizes, empty axes counted as 1
    for (const int64_t n : shapes_[i]) reach = product(reach, std::max<int64_t>(n, 1));
    const auto bytes = static_cast<int64_t>(tensor_bytes(value));
    if (bytes > target_.most_bytes) {
      throw TooLarge("tensor '" + target_.plan.name(value) + "'", bytes, target_.most_bytes);
    }
    if (reach > int64_t{1} << 44) {
      fail(INTACT_BAD_SHAPE, "tensor '" + target_.plan.name(value) + "'", text_of(shapes_[i]), "less");
    }
  }
  int64_t outside = 0;
  for (const auto* ports : {&target_.plan.inputs, &target_.plan.outputs}) {
    for (const int value : *ports) outside += static_cast<int64_t>(tensor_bytes(value));
  }
  return outside;
}

void Bound::check_bytes(int64_t nbytes) const {
  if (nbytes > target_.most_bytes) throw TooLarge("engine", nbytes, target_.most_bytes);
}

void Bound::place_tensors(const ArenaPlan& arena) {
  const Plan& plan = target_.plan;
  std::vector<uint32_t> blocks(plan.tensors.size(), 0);
  for (const OuterArray& array : outer_inputs_) {
    const uint32_t block = program_.input(static_cast<size_t>(array.nbytes));
    blocks[static_cast<size_t>(array.value)] = inputs_.emplace_back(block);
  }
  for (const OuterArray& array : outer_outputs_) {
    const uint32_t block = outputs_.emplace_back(program_.output(static_cast<size_t>(array.nbytes)));
    const bool is_input = std::count(plan.inputs.begin(), plan.inputs.end(), array.value) > 0;
    if (!is_input) blocks[static_cast<size_t>(array.value)] = block;
  }
  if (held_.has_some) {
    const auto bytes = static_cast<size_t>(arena.held_nbytes);
    const std::shared_ptr<uint8_t> memory(make_aligned(bytes + kSlack));
    held_values_ = {{memory.get(), bytes}, memory};
    held_block_ = program_.constant(memory.get(), bytes);
  }
  std::vector<uint32_t> private_blocks(plan.tensors.size(), 0);
  const auto threads = static_cast<size_t>(target_.pool.threads());
  for (size_t i = 0; i < repeated_.size(); ++i) {
    const auto offset = static_cast<size_t>(arena.threads[i].first),
               bytes = static_cast<size_t>(arena.threads[i].second);
    const uint32_t block = program_.window(Window::Of::thread, 0, offset, bytes * threads, bytes, threads);
    for (size_t v = 0; v < private_blocks.size(); ++v) {
      if (repeated_[i].inner[v]) private_blocks[v] = block;
    }
  }
  places_.resize(plan.tensors.size());
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto root = static_cast<size_t>(layout_.roots[i]);
    const int64_t offset = arena.offsets[root];
    const uint32_t own = held_.tensors[i] ? held_block_ : private_blocks[root];
    places_[i] = {offset < 0 ? blocks[root] : own,
                  static_cast<size_t>(std::max<int64_t>(offset, 0) + layout_.frames[i].first)};
  }
  for (const auto& [offset, bytes] : arena.taken) {
    program_.tensor(static_cast<size_t>(offset), static_cast<size_t>(bytes));
  }
}

// What runs a few images at a time, and where everything lies then.
void Bound::choose_layout() {
  const Plan& plan = target_.plan;
  if (!target_.is_whole)
    repeated_ = find_micro_batches(plan, shapes_, target_.pool.threads(), target_.near_bytes);
  for (bool fits = false; !fits;) {
    std::vector<Shape> sizes;
    if (!repeated_.empty()) sizes = shapes_;
    for (const MicroBatches& steps : repeated_) {
      for (size_t v = 0; v < sizes.size(); ++v) {
        if (steps.inner[v]) sizes[v] = steps.sizes(sizes[v]);
      }
    }
    layout_ =
        lay_out(plan, target_.layout, repeated_.empty() ? shapes_ : sizes, outer_inputs_, outer_outputs_);
    const auto all = repeated_.size();
    std::erase_if(repeated_, [&](const MicroBatches& steps) { return !can_cut(plan, layout_, steps); });
    fits = repeated_.size() == all;
  }
}

// A place that moves on each time.
Place Bound::window(const MicroBatches& steps, int tensor) {
  const auto at = static_cast<size_t>(tensor), root = static_cast<size_t>(layout_.roots[at]);
  const Frame& frame = layout_.frames[at];
  const Place& place = places_[at];
  const size_t start = place.offset - static_cast<size_t>(frame.first);
  const uint32_t block =
      program_.window(Window::Of::time, place.block, start, static_cast<size_t>(layout_.frames[root].nbytes),
                      static_cast<size_t>(steps.images * frame.strides[0]), static_cast<size_t>(steps.times));
  return {block, place.offset - start, true};
}

// Writes the halos of whole tensors that are about to be written image by image, and lets the binding be
// about the images of one time.
void Bound::begin_times(const MicroBatches& steps, Binding& binding) {
  const Plan& plan = target_.plan;
  std::vector<Shape> sizes = shapes_;
  std::vector<Place> places = places_;
  std::vector<bool> is_done(plan.tensors.size());
  for (size_t i = steps.begin; i < steps.end; ++i) {
    each_tensor(plan, *plan.steps[i], [&](int v) {
      const auto at = static_cast<size_t>(v);
      if (is_done[at]) return;
      is_done[at] = true;
      sizes[at] = steps.sizes(sizes[at]);
      if (!steps.has(v)) places[at] = window(steps, v);
    });
    for (const int v : plan.steps[i]->writes) {
      if (!steps.has(v)) binding.add_halo(v);
    }
  }
  binding.cut(std::move(sizes), std::move(places));
}

// They write memory of the binding's own, which is a constant of the program of runs.
void Bound::hold_values() {
  if (!held_.has_some) return;
  const Plan& plan = target_.plan;
  std::vector<const PlanStep*> steps;
  std::vector<bool> pending(plan.tensors.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (!held_.steps[i]) continue;
    const PlanStep* const step = plan.steps[i].get();
    const auto is_pending = [&](int v) { return plan.is_tensor(v) && pending[static_cast<size_t>(v)]; };
    if (std::any_of(step->fixed.begin(), step->fixed.end(), is_pending)) {
      run_once(steps);
      steps.clear();
      pending.assign(pending.size(), false);
    }
    steps.push_back(step);
    for (const int v : step->writes) pending[static_cast<size_t>(v)] = true;
  }
  run_once(steps);
  held_bytes_ += held_values_.bytes.size();
}

void Bound::run_once(const std::vector<const PlanStep*>& steps) {
  Program program;
  Owners owners;
  const uint32_t block = program.output(held_values_.bytes.size());
  std::vector<Place> places = places_;
  for (size_t v = 0; v < places.size(); ++v) {
    if (held_.tensors[v]) places[v].block = block;
  }
  Binding binding(target_.plan, target_.kernels, target_.pool.threads(), known_, shapes_, layout_, places, 0,
                  program, owners, target_.layers);
  binding.lend_held(held_values_.bytes, held_.tensors);
  const auto made = std::make_shared<Steps>();
  std::vector<const PlanStep*> labels;
  for (const PlanStep* const step : steps) {
    try {
      binding.add_step(*step);
    } catch (const std::invalid_argument& error) {
      throw refusal_of(step, error);
    }
    binding.take([&](auto native) {
      made->push_back(std::move(native));
      labels.push_back(step);
    });
  }
  program.arena(static_cast<size_t>(binding.arena()));
  for (size_t i = 0; i < made->size(); ++i) add_step(program, made, i, labels[i]);
  Context context(program, target_.pool, make_workspace());
  context.place(block, held_values_.bytes.data(), held_values_.bytes.size());
  const size_t ended = context.run(0, made->size(), nullptr);
  if (ended < made->size()) throw index_failure(labels[ended]);
}

void Bound::make_steps(int64_t arena, int64_t outside) {
  Plan& plan = target_.plan;
  Binding binding(plan, target_.kernels, target_.pool.threads(), known_, shapes_, layout_, places_, arena,
                  program_, owners_, target_.layers, target_.host);
  binding.lend_held(held_values_.bytes, held_.tensors);
  const auto made = std::make_shared<Steps>();
  const auto extend = [&](const PlanStep* label, Copied copied = {-1, false}) {
    binding.take([&](auto step) {
      made->push_back(std::move(step));
      labels_.push_back(label);
      copied_.push_back(copied);
    });
  };
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const int v = plan.inputs[i];
    if (!layout_.staged[static_cast<size_t>(v)]) continue;
    binding.add_halo(v);
    binding.add(copy_outer(binding, outer_inputs_[i], inputs_[i], true));
    extend(nullptr, {v, true});
  }
  auto next = repeated_.begin();
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = *plan.steps[i];
    if (held_.steps[i]) continue;
    try {
      if (next != repeated_.end() && i == next->begin) {
        begin_times(*next, binding);
        extend(&step);
        repeats_[made->size()] = static_cast<size_t>(next->times);
      }
      binding.add_step(step);
    } catch (const std::invalid_argument& error) {
      throw refusal_of(&step, error);
    }
    extend(&step);
    if (dynamic_cast<const Part*>(&step) != nullptr) breaks_.push_back({made->size(), &step});
    if (next != repeated_.end() && i + 1 == next->end) {
      repeats_[made->size()] = 1;
      binding.end_cut();
      ++next;
    }
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const int v = plan.outputs[i];
    const bool is_there = places_[static_cast<size_t>(v)].block == outputs_[i];
    if (!is_there && !plan.tensor(v).is_string)
      binding.add(copy_outer(binding, outer_outputs_[i], outputs_[i], false));
    extend(nullptr, {v, false});
  }
  check_bytes(outside + binding.arena() + static_cast<int64_t>(held_values_.bytes.size()));
  held_bytes_ += binding.held_bytes();
  program_.arena(static_cast<size_t>(binding.arena()));
  for (size_t i = 0; i < made->size(); ++i) {
    if (const auto times = repeats_.find(i); times != repeats_.end()) program_.repeat(times->second);
    add_step(program_, made, i, labels_[i]);
  }
}

Bound::Bound(const Target& target, const std::vector<Shape>& inputs, const CallerArrays& arrays)
    : Bound(target, infer_sizes(target.plan, inputs), arrays) {}

Bound::Bound(const Target& target, Sizes sizes, const CallerArrays& arrays)
    : target_(target), known_(std::move(sizes).known()), shapes_(std::move(sizes).shapes()) {
  const int64_t outside = check_sizes();
  outer_inputs_ = outer_arrays(target.plan.inputs, arrays.inputs, false);
  outer_outputs_ = outer_arrays(target.plan.outputs, arrays.outputs, true);
  choose_layout();
  const int threads = target.pool.threads();
  held_ = find_held(target.plan, layout_);
  const ArenaPlan arena =
      plan_memory(target.plan, target.layout, layout_, held_, repeated_, threads, target.is_whole);
  check_bytes(outside + arena.nbytes + arena.held_nbytes);
  place_tensors(arena);
  hold_values();
  make_steps(arena.nbytes, outside);
  if (target.host == nullptr) {  // nobody else asks where tensors lie: memory that the next binding has again
    layout_ = {};
    places_ = {};
  }
}

void Bound::check_room(size_t bytes) const {
  if (bytes < run_bytes()) {
    fail(INTACT_BAD_ARGUMENT, "workspace", std::to_string(bytes) + " bytes", std::to_string(run_bytes()));
  }
}

void Bound::prepare_run(const std::shared_ptr<Workspace>& workspace) {
  if (context_ != nullptr) return context_->attach();
  context_ = std::make_unique<Context>(program_, target_.pool, workspace);
  if (Executor* const executor = target_.pool.try_take())
    executor->leave();  // threads begin here, not in a run
}

void Bound::run(const void* const* inputs, void* const* outputs, const std::atomic<bool>& cancelled,
                double* seconds) {
  const auto place = [&](uint32_t block, const OuterArray& array, const void* data) {
    if (data == nullptr && array.nbytes > 0)
      throw Failure(INTACT_BAD_ARGUMENT, "an input or output: got no array, want one");
    const auto* const first = data == nullptr ? nullptr : static_cast<const uint8_t*>(data) + array.first;
    context_->place(block, first, static_cast<size_t>(array.nbytes));
  };
  try {
    for (size_t i = 0; i < inputs_.size(); ++i) place(inputs_[i], outer_inputs_[i], inputs[i]);
    for (size_t i = 0; i < outputs_.size(); ++i) place(outputs_[i], outer_outputs_[i], outputs[i]);
  } catch (const std::invalid_argument& error) {
    throw Failure(INTACT_BAD_ARGUMENT, error.what());
  }
  const size_t end = program_.steps().size(), ended = context_->run(0, end, seconds, &cancelled);
  if (ended < end) {
    if (!context_->failed()) throw Failure(INTACT_CANCELLED, "the run was cancelled");
    throw index_failure(labels_[ended]);
  }
}

StepLabel Bound::label(size_t step) const {
  const std::string kernel = program_.steps()[step]->name();
  if (labels_[step] != nullptr) return {labels_[step]->name, labels_[step]->kind, kernel};
  const Copied& copied = copied_[step];
  return {target_.plan.name(copied.value), copied.is_input ? "input" : "output", kernel};
}

size_t Bound::nbytes() const {
  constexpr size_t kStepBytes = 1280;  // a BERT takes 960, float layers 1,290, SmolLM2 1,140
  const size_t each = sizeof(Shape) + sizeof(Frame) + sizeof(Place);
  return held_bytes_ + kStepBytes * program_.steps().size() + each * shapes_.size();
}

}  // namespace intact::engine
