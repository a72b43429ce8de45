// Plans for Python's engine: read from their JSON, and bound for sets of sizes. The arrays, and the parts
// that no kernel runs, stay with Python (engine/host.h).
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/type_names.h"
#include "bindings/bindings.h"
#include "engine/bound.h"
#include "engine/crc32.h"
#include "engine/panels.h"
#include "engine/failure.h"
#include "engine/kinds.h"

namespace intact {
namespace {

using engine::Bound;
using engine::Bytes;
using engine::Failure;
using engine::Shape;

Shape shape_of(nb::handle sizes) {
  Shape shape;
  for (const nb::handle size : sizes) {
    if (shape.rank == engine::kMostAxes) throw nb::value_error("more axes than the engine walks");
    shape.push(nb::cast<int64_t>(size));
  }
  return shape;
}

nb::tuple tuple_of(const engine::Axes& axes) {
  nb::list items;
  for (const int64_t n : axes) items.append(n);
  return nb::tuple(items);
}

// Keeps a Python object alive from wherever a step is destroyed.
std::shared_ptr<const void> keep(nb::object object) {
  return {new nb::object(std::move(object)), [](const void* p) {
            const nb::gil_scoped_acquire gil;
            delete static_cast<const nb::object*>(p);
          }};
}

nb::ndarray<nb::numpy, uint8_t> array_of(std::vector<uint8_t> bytes) {
  auto* const bytes_on_heap = new std::vector<uint8_t>(std::move(bytes));
  const nb::capsule owner(bytes_on_heap,
                          [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
  return {bytes_on_heap->data(), {bytes_on_heap->size()}, owner};
}

// An array of Python's, alive for as long as its bytes are needed.
Bytes bytes_of_array(nb::object array) {
  const auto view = nb::cast<AnyIn>(array);
  return {{static_cast<const uint8_t*>(view.data()), view.nbytes()}, keep(std::move(array))};
}

// Asks a Python object, `intact.engine.cpu.host.PlanHost`.
class PythonHost final : public engine::Host {
 public:
  explicit PythonHost(nb::object host) : host_(std::move(host)) {}

  Bytes constant(const std::string& name) override { return bytes_of_array(host_.attr("constant")(name)); }
  Bytes constant_to_pack(const std::string& name) override {
    return bytes_of_array(host_.attr("constant_to_pack")(name));
  }
  uint32_t checksum(const std::string& name) override {
    return nb::cast<uint32_t>(host_.attr("checksum")(name));
  }
  std::optional<Bytes> packed(const std::string& constant, const std::string& form) override {
    nb::object array = host_.attr("find_packed")(constant, form);
    if (array.is_none()) return std::nullopt;
    return bytes_of_array(std::move(array));
  }
  Bytes keep_packed(const std::string& constant, const std::string& form, Type type,
                    std::vector<uint8_t> bytes) override {
    const std::string dtype(name_of(type));
    return bytes_of_array(host_.attr("keep_packed")(constant, form, dtype, array_of(std::move(bytes))));
  }
  std::vector<Shape> part_shapes(const engine::PlanStep& part, const engine::Sizes& sizes) override {
    nb::list inputs;
    for (const int value : part.reads) inputs.append(tuple_of(sizes.of(value)));
    std::vector<Shape> shapes;
    for (const nb::handle shape : nb::iter(host_.attr("part_shapes")(part.index, inputs))) {
      shapes.push_back(shape_of(shape));
    }
    require(shapes.size() == part.writes.size(), "a shape for each tensor that a part makes");
    return shapes;
  }
  bool asks_for_layers() override { return asks_; }
  // Where nobody asks for layers, the default runs.
  size_t choose_form(const std::string& layer, std::span<const char* const> forms, size_t standard) override {
    last_ = {0, forms, standard};
    if (!asks_) return standard;
    nb::list names;
    for (const char* const form : forms) names.append(form);
    return nb::cast<size_t>(host_.attr("choose_form")(layer, names, standard));
  }
  void note_form(size_t native_step) override {
    if (asks_) host_.attr("note_form")(native_step);
    last_.native_step = native_step;
    choices_.push_back(last_);
  }

  // The native step of a layer, its forms, and the place of the default.
  struct Choice {
    size_t native_step = 0;
    std::span<const char* const> forms;
    size_t standard = 0;
  };
  // For the binding that begins now.
  void begin() {
    asks_ = nb::cast<bool>(host_.attr("asks_for_layers")());
    choices_.clear();
  }
  std::vector<Choice> take_choices() { return std::move(choices_); }

 private:
  const nb::object host_;
  bool asks_ = false;
  Choice last_;
  std::vector<Choice> choices_;
};

// A plan, and what follows from it alone.
struct HostedPlan {
  HostedPlan(const std::string& json, nb::object host_, bool is_whole_)
      : host(std::move(host_)), plan(json, host, is_whole_), layout(plan), is_whole(is_whole_) {}

  // The kernels of now: the environment may name others each time, which other layers are for.
  std::shared_ptr<const engine::Kernels> kernels() {
    std::string now;
    for (const char* const name : {"INTACT_MAX_ISA", "INTACT_FORCE_KERNEL"}) {
      const char* const value = std::getenv(name);
      now += std::string(value == nullptr ? "" : value) + "\n";
    }
    if (kernels_ == nullptr || now != environment_) {
      kernels_ = std::make_shared<const engine::Kernels>(nullptr);
      environment_ = now;
      layers.clear();
    }
    return kernels_;
  }

  PythonHost host;
  engine::Plan plan;
  const engine::LayoutPlan layout;
  const bool is_whole;
  engine::Layers layers;

 private:
  std::shared_ptr<const engine::Kernels> kernels_;
  std::string environment_;  // for which they were chosen
};

// A plan that is bound on the kernels of now.
struct HostedBound {
  HostedBound(HostedPlan& hosted, const std::vector<Shape>& shapes, const engine::CallerArrays& arrays,
              ThreadPool& pool, int64_t most_bytes, int64_t near_bytes)
      : kernels(hosted.kernels()),
        bound({hosted.plan, hosted.layout, *kernels, hosted.layers, pool, &hosted.host, hosted.is_whole,
               most_bytes, near_bytes},
              shapes, arrays),
        choices(hosted.host.take_choices()) {}

  const std::shared_ptr<const engine::Kernels> kernels;
  Bound bound;
  const std::vector<PythonHost::Choice> choices;  // where nobody asked for layers
};

// Strides of the arrays of inputs or outputs; None: dense.
std::vector<engine::CallerArray> caller_arrays(const nb::list& strides) {
  std::vector<engine::CallerArray> arrays;
  for (const nb::handle port : strides) {
    arrays.push_back({false, !port.is_none(), port.is_none() ? engine::Axes{} : shape_of(port)});
  }
  return arrays;
}

std::unique_ptr<HostedBound> bind(HostedPlan& hosted, const nb::list& shapes, ThreadPool& pool,
                                  int64_t most_bytes, int64_t near_bytes, const nb::list& input_strides,
                                  const nb::list& output_strides) {
  std::vector<Shape> sizes;
  for (const nb::handle shape : shapes) sizes.push_back(shape_of(shape));
  require(sizes.size() == hosted.plan.inputs.size(), "a shape for each input");
  hosted.host.begin();
  const engine::CallerArrays arrays{caller_arrays(input_strides), caller_arrays(output_strides)};
  return std::make_unique<HostedBound>(hosted, sizes, arrays, pool, most_bytes, near_bytes);
}

using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;

// Sets the address of an input or output for the next run, which lies as it was bound.
void place(Context& context, const Bound& bound, uint32_t block, const engine::OuterArray& outer,
           const AnyArray& array) {
  const auto nbytes = static_cast<size_t>(outer.nbytes);
  if (nbytes == 0) return context.place(block, nullptr, 0);  // or strings, which lie elsewhere
  const Shape& shape = bound.shape(outer.value);
  const auto itemsize = static_cast<int64_t>(array.itemsize());
  bool fits = array.ndim() == static_cast<size_t>(shape.rank) && itemsize == outer.itemsize;
  for (int i = 0; fits && i < shape.rank; ++i) {
    const auto axis = static_cast<size_t>(i);
    fits = static_cast<int64_t>(array.shape(axis)) == shape[i] &&
           (shape[i] == 1 || array.stride(axis) * itemsize == outer.strides[i]);
  }
  require(fits, "an array of an input or output has other sizes or strides than it was bound for");
  context.place(block, static_cast<const uint8_t*>(array.data()) + outer.first, nbytes);
}

void place_all(const HostedBound& hosted, Context& context, const nb::list& inputs, const nb::list& outputs) {
  const Bound& bound = hosted.bound;
  require(inputs.size() == bound.inputs().size() && outputs.size() == bound.outputs().size(),
          "an array for each input and output");
  for (size_t i = 0; i < inputs.size(); ++i) {
    place(context, bound, bound.input_blocks()[i], bound.inputs()[i], nb::cast<AnyArray>(inputs[i]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    place(context, bound, bound.output_blocks()[i], bound.outputs()[i], nb::cast<AnyArray>(outputs[i]));
  }
}

// (native step, its forms, the place of the default) of each layer that has several forms.
nb::list choices(const HostedBound& hosted) {
  nb::list found;
  for (const PythonHost::Choice& choice : hosted.choices) {
    nb::list forms;
    for (const char* const form : choice.forms) forms.append(form);
    found.append(nb::make_tuple(choice.native_step, nb::tuple(forms), choice.standard));
  }
  return found;
}

// The plan's step of each native one; -1: none.
std::vector<int64_t> labels(const HostedBound& hosted) {
  std::vector<int64_t> indices;
  for (const auto* step : hosted.bound.labels()) {
    indices.push_back(step == nullptr ? -1 : static_cast<int64_t>(step->index));
  }
  return indices;
}

// (native steps before it, step of the plan) of each part.
std::vector<std::pair<size_t, size_t>> parts(const HostedBound& hosted) {
  std::vector<std::pair<size_t, size_t>> found;
  for (const engine::Break& part : hosted.bound.breaks()) found.emplace_back(part.at, part.part->index);
  return found;
}

// How often each native step runs.
std::vector<int64_t> times(const HostedBound& hosted) {
  std::vector<int64_t> counts(hosted.bound.labels().size(), 1);
  for (const auto& [begin, count] : hosted.bound.repeats()) {
    std::fill(counts.begin() + static_cast<std::ptrdiff_t>(begin), counts.end(), static_cast<int64_t>(count));
  }
  return counts;
}

// What runs read of what was made when the plan was bound.
nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>> held_values(const HostedBound& hosted) {
  const auto bytes = hosted.bound.held_values();
  return {bytes.data(), {bytes.size()}};
}

// Of all tensors.
nb::list shapes(const HostedBound& hosted) {
  nb::list found;
  for (const Shape& shape : hosted.bound.shapes()) found.append(tuple_of(shape));
  return found;
}

// (bytes, first step, last step) of memory that is taken: where each lies, and the bytes of all.
std::pair<std::vector<int64_t>, int64_t> place_spans(
    const std::vector<std::tuple<int64_t, int, int>>& given) {
  std::vector<engine::Span> spans;
  for (const auto& [nbytes, begin, end] : given) spans.push_back({nbytes, begin, end, true});
  std::vector<int64_t> offsets(spans.size());
  const int64_t nbytes = engine::place_spans(spans, offsets);
  return {offsets, nbytes};
}

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const Failure& failure) {
    const auto* const large = dynamic_cast<const engine::TooLarge*>(&failure);
    const bool is_guess = dynamic_cast<const engine::SizesUnknown*>(&failure) != nullptr;
    const std::string got = failure.got.empty() ? failure.what() : failure.got;
    const nb::object refuse = nb::module_::import_("intact.engine.cpu.host").attr("refusal");
    const nb::object error = refuse(static_cast<int>(failure.status), failure.where, got, failure.want,
                                    is_guess, large == nullptr ? 0 : large->bytes);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  }
}

}  // namespace

void bind_engine(nb::module_& m) {
  nb::register_exception_translator(&translate);
  m.attr("NEAR_BYTES") = engine::kNearBytes;
  m.def("native_kinds", &engine::native_kinds);
  m.def(
      "step_rules", [](const std::string& kind) { return std::string(engine::rules_text(kind)); }, "kind"_a);
  m.def("place_spans", &place_spans, "spans"_a);
  nb::class_<HostedPlan>(m, "HostedPlan")
      .def(nb::init<const std::string&, nb::object, bool>(), "json"_a, "host"_a, "is_whole"_a)
      .def("bind", &bind, "shapes"_a, "thread_pool"_a, "most_bytes"_a, "near_bytes"_a, "input_strides"_a,
           "output_strides"_a, nb::keep_alive<0, 1>(), nb::keep_alive<0, 3>())
      .def("forget_layers", [](HostedPlan& hosted) { hosted.layers.clear(); });
  m.def(
      "crc32",
      [](const AnyIn& array) {
        const auto* const bytes = static_cast<const uint8_t*>(array.data());
        const nb::gil_scoped_release unlocked;
        return engine::crc32(bytes, array.nbytes());
      },
      "array"_a.noconvert());
  m.def(
      "unpack_block_codes",
      [](const AnyIn& panels, int64_t outputs, int64_t inputs, int64_t bits) {
        const auto* const bytes = static_cast<const uint8_t*>(panels.data());
        return array_of(engine::Panels{inputs, bits}.unpack("panels", {bytes, panels.nbytes()}, outputs));
      },
      "panels"_a.noconvert(), "outputs"_a, "inputs"_a, "bits"_a);
  nb::class_<HostedBound>(m, "HostedBound")
      .def_prop_ro(
          "program", [](const HostedBound& b) -> const Program& { return b.bound.program(); },
          nb::rv_policy::reference_internal)
      .def("place_arrays", &place_all, "context"_a, "inputs"_a, "outputs"_a)
      .def_prop_ro("input_blocks", [](const HostedBound& b) { return b.bound.input_blocks(); })
      .def_prop_ro("output_blocks", [](const HostedBound& b) { return b.bound.output_blocks(); })
      .def_prop_ro("held_bytes", [](const HostedBound& b) { return b.bound.held_bytes(); })
      .def_prop_ro("held_block", [](const HostedBound& b) { return b.bound.held_block(); })
      .def_prop_ro("held_values", &held_values, nb::rv_policy::reference_internal)
      .def_prop_ro("arena_bytes", [](const HostedBound& b) { return b.bound.program().blocks()[0].bytes; })
      .def_prop_ro("choices", &choices)
      .def_prop_ro("labels", &labels)
      .def_prop_ro("parts", &parts)
      .def_prop_ro("times", &times)
      .def_prop_ro("shapes", &shapes)
      .def(
          "shape", [](const HostedBound& b, int tensor) { return tuple_of(b.bound.shape(tensor)); },
          "tensor"_a)
      .def(
          "place",
          [](const HostedBound& b, int tensor) {
            const engine::Place& place = b.bound.place(tensor);
            return nb::make_tuple(place.block, place.offset, tuple_of(b.bound.strides(tensor)));
          },
          "tensor"_a);
}

}  // namespace intact
