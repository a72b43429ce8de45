// A plan with shapes and places, and the native steps that are made of it.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/kernel_choice.h"
#include "engine/layers.h"
#include "engine/layout.h"
#include "engine/memory.h"
#include "engine/plan.h"
#include "runtime/program.h"
#include "steps/common/real_views.h"

namespace intact::engine {

// What a file or a program may ask of this machine's memory: as intact.limits says.
constexpr int64_t kMostEngineBytes = int64_t{1} << 33;

// Where a tensor lies.
struct Place {
  uint32_t block = 0;
  size_t offset = 0;       // of element 0
  bool is_window = false;  // a part of a tensor that lies whole, another one each time
};

// What a program needs to live: it refers to these arrays.
using Owners = std::vector<std::shared_ptr<const void>>;

class Binding {
 public:
  Binding(Plan& plan_, const Kernels& kernels_, int threads, const KnownDims& known_,
          const std::vector<Shape>& shapes, const Layout& layout, const std::vector<Place>& places,
          int64_t arena, Program& program, Owners& owners, Layers& layers, Host* host_ = nullptr);

  const TensorRecord& tensor(int value) const { return plan.tensor(value); }
  const Codes& codes(int value) const { return *plan.tensor(value).codes; }
  const Codes* grid(int value) const { return plan.grid(value); }
  // Sizes, in ONNX's order: of what the step that is bound is about.
  const Shape& shape(int value) const {
    return plan.is_tensor(value) ? (*sizes_)[static_cast<size_t>(value)] : plan.constant(value).shape;
  }

  // A tensor, or a constant that stands for one, with its axes in ONNX's order, however its bytes lie;
  // without its halo.
  View view(int value);
  // A tensor of rank 4 as (n, h, w, c), with its halo.
  View image(int value) const;
  // A constant, dense, as native steps read it.
  View constant(int value);
  // The same; its numbers. Compared with its checksum.
  template <class T>
  std::span<const T> array(int value) {
    return plan.array(value).as<T>();
  }
  // The same of a constant or of a tensor that follows from sizes alone, which is there when steps that
  // name it among their `fixed` are bound.
  template <class T>
  std::span<const T> fixed(int value) {
    return plan.is_constant(value) ? array<T>(value) : Bytes{fixed_bytes(value), {}}.as<T>();
  }
  // Sizes of the plan in numbers.
  std::vector<int64_t> numbers(const std::vector<Dim>& dims) const { return plan.dims.numbers(dims, known); }
  // An array made now, dense, as native steps read it.
  template <class T>
  View hold(const std::vector<T>& values, Type type, const Shape& shape) {
    return hold(values.data(), values.size() * sizeof(T), type, shape);
  }
  View hold(const void* data, size_t bytes, Type type, const Shape& shape);
  // Bytes of the file or of the plan, as a block of the program.
  View keep(const Bytes& bytes, Type type, const Shape& shape);
  // Lets something live for as long as the program.
  void own(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }
  // A part of the step that is bound, by its name among the step's parts: what `make` has made once for all
  // sizes.
  template <class Part, class Make>
  std::shared_ptr<const Part> part(std::string_view name, const Make& make) {
    return layers_.get<Part>({static_cast<int>(step_->index), kNoValue, name}, make);
  }
  // A constant in the form of a kernel (Arrays::packed), which is asked for once for all sizes.
  template <class Make>
  Bytes packed(int constant, const std::string& form, const Make& make, Type type = Type::u8) {
    return *layers_.get<Bytes>({static_cast<int>(step_->index), constant, form}, [&] {
      return std::make_shared<const Bytes>(plan.arrays.packed(plan.constant(constant), form, make, type));
    });
  }
  bool is_packed(int constant, const std::string& form) {
    return plan.arrays.is_packed(plan.constant(constant), form);
  }
  // A tensor or a constant as floats.
  RealIn real_in(int value);
  RealOut real_out(int value);
  // Lets the steps that are bound from now on be about parts of tensors, each on one thread: their sizes and
  // places.
  void cut(std::vector<Shape> sizes, std::vector<Place> places);
  void end_cut();
  // Whether steps may ask for temporary memory: those about parts of tensors may not.
  bool has_temporary() const { return !is_cut_; }
  int threads() const { return is_cut_ ? 1 : threads_; }
  // Memory between the native steps of one step of the plan: threads share it.
  View temporary(Type type, const Shape& shape);
  // Whether two views of one shape are the same bytes: there is nothing to copy then.
  static bool same_memory(const View& x, const View& y);

  void add(std::unique_ptr<Step> step) { made_.push_back(std::move(step)); }
  // Returns the place of the form of a layer that runs: the standard one, unless the host says otherwise.
  // `layer` returns what it is called.
  template <class Layer>
  size_t choose_form(const Layer& layer, std::span<const char* const> forms, size_t standard) {
    if (host_ == nullptr) return standard;
    return host_->choose_form(host_->asks_for_layers() ? layer() : std::string(), forms, standard);
  }
  // Adds a layer in the form that was chosen last.
  void add_form(std::unique_ptr<Step> step) {
    if (host_ != nullptr) host_->note_form(steps_before_ + made_.size());
    add(std::move(step));
  }
  // The step that is bound.
  const PlanStep& step() const { return *step_; }
  // What writes the halo of a tensor that is about to be written, where it has one; and all of a step.
  void add_halo(int value);
  void add_step(const PlanStep& step);
  // Hands over the steps so far: use(std::unique_ptr<Step>).
  template <class Use>
  void take(const Use& use) {
    steps_before_ += made_.size();
    for (auto& step : made_) use(std::move(step));
    made_.clear();
  }
  // Lets steps read numbers of what is held: memory, and which tensors lie there.
  void lend_held(std::span<const uint8_t> values, const std::vector<bool>& tensors) {
    held_values_ = values;
    held_tensors_ = &tensors;
  }
  // Bytes of arrays that were made for these sizes.
  size_t held_bytes() const { return held_bytes_; }
  int64_t arena() const { return most_; }

  Plan& plan;
  const Kernels& kernels;
  const KnownDims& known;  // what free sizes are

 private:
  std::span<const uint8_t> fixed_bytes(int tensor) const;

  const int threads_;
  const std::vector<Shape>& whole_sizes_;
  const Layout& layout_;
  const std::vector<Place>& whole_places_;
  // Those of whole tensors, or of their parts.
  const std::vector<Shape>* sizes_;
  const std::vector<Place>* places_;
  std::vector<Shape> cut_sizes_;
  std::vector<Place> cut_places_;
  bool is_cut_ = false;
  Program& program_;
  Owners& owners_;
  std::vector<uint32_t> constants_;  // by number the block of each; 0: it has none yet
  std::vector<std::unique_ptr<Step>> made_;
  size_t steps_before_ = 0, held_bytes_ = 0;
  std::span<const uint8_t> held_values_;
  const std::vector<bool>* held_tensors_ = nullptr;
  Layers& layers_;
  Host* const host_;
  const PlanStep* step_ = nullptr;  // that is bound
  const int64_t planned_;
  int64_t top_, most_;
};

// Row-major memory without gaps.
View dense_view(uint32_t block, size_t offset, Type type, const Shape& shape);

}  // namespace intact::engine
