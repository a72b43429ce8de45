// View, Step, Program and Context for Python.
#include "runtime/program.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/type_names.h"
#include "bindings/bindings.h"
#include "runtime/balance.h"
#include "runtime/context.h"

namespace intact {
namespace {

#if defined(INTACT_CHECK)
constexpr bool kChecked = true;
#else
constexpr bool kChecked = false;
#endif

constexpr int kMostThreads = 4096;

Type type_of(const std::string& dtype) {
  if (const auto type = find_type(dtype)) return *type;
  throw nb::value_error("no step reads this dtype");
}

// Other elements of the same memory.
View part_of(View v, size_t offset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  require(sizes.size() <= kMaxRank, "a view has more axes than steps walk");
  require(sizes.size() == strides.size(), "one stride for each axis");
  v.offset = offset;
  v.rank = static_cast<int>(sizes.size());
  v.halo = {};
  for (size_t i = 0; i < sizes.size(); ++i) {
    v.sizes[i] = sizes[i];
    v.strides[i] = strides[i];
  }
  return v;
}

View make_view(uint32_t block, size_t offset, const std::string& dtype, const std::vector<int64_t>& sizes,
               const std::vector<int64_t>& strides, const std::array<int64_t, 4>& halo,
               std::pair<uint8_t, uint8_t> holds) {
  View v;
  v.block = block;
  v.type = type_of(dtype);
  std::tie(v.low, v.high) = holds;
  v = part_of(v, offset, sizes, strides);
  v.halo = halo;
  return v;
}

nb::tuple tuple_of(const std::array<int64_t, kMaxRank>& values, int rank) {
  nb::list found;
  for (int i = 0; i < rank; ++i) found.append(values[static_cast<size_t>(i)]);
  return nb::tuple(found);
}

// (name, products) of the inner loops of a step.
std::vector<std::pair<std::string, int64_t>> loops(const Program& program, size_t step) {
  require(step < program.steps().size(), "no such step");
  std::vector<std::pair<std::string, int64_t>> found;
  for (const Loop& loop : program.steps()[step]->loops()) found.emplace_back(loop.name, loop.products);
  return found;
}

size_t items(const Program& program, size_t step) {
  require(step < program.steps().size(), "no such step");
  return program.steps()[step]->items();
}

// The names of all steps in profiles.
std::vector<std::string> kernels(const Program& program) {
  std::vector<std::string> names;
  for (const auto& step : program.steps()) names.emplace_back(step->name());
  return names;
}

double share(const Program& program, size_t step, int threads) {
  require(step < program.steps().size(), "no such step");
  require(threads >= 1 && threads <= kMostThreads, "a step is run by at least one thread");
  return largest_share(*program.steps()[step], threads);
}

uint32_t add_constant(Program& p, AnyIn array) { return p.constant(array.data(), array.nbytes()); }

size_t run(Context& context, size_t begin, size_t end, std::optional<Dense<double>> seconds) {
  const size_t steps = context.program().steps().size();
  require(!seconds || seconds->size() == steps, "one time for each step");
  double* const times = seconds ? seconds->data() : nullptr;
  nb::gil_scoped_release release;
  return context.run(begin, end, times);
}

// The memory of the arena as an array that keeps the context alive.
nb::ndarray<nb::numpy, uint8_t> arena(nb::handle self) {
  const auto& context = nb::cast<const Context&>(self);
  return {context.arena(), {context.program().blocks()[0].bytes}, self};
}

}  // namespace

void bind_program(nb::module_& m) {
  m.attr("CHECKED") = kChecked;
  nb::class_<View>(m, "View")
      .def(nb::new_(&make_view), "block"_a, "offset"_a, "dtype"_a, "sizes"_a, "strides"_a,
           "halo"_a = std::array<int64_t, 4>{}, "holds"_a = std::pair<uint8_t, uint8_t>{0, 255})
      .def("part", &part_of, "offset"_a, "sizes"_a, "strides"_a)
      .def_ro("block", &View::block)
      .def_ro("offset", &View::offset)
      .def_ro("halo", &View::halo)
      .def_prop_ro("holds", [](const View& v) { return std::make_pair(v.low, v.high); })
      .def_prop_ro("itemsize", [](const View& v) { return bytes_of(v.type); })
      .def_prop_ro("sizes", [](const View& v) { return tuple_of(v.sizes, v.rank); })
      .def_prop_ro("strides", [](const View& v) { return tuple_of(v.strides, v.rank); });
  nb::class_<NativeStep>(m, "Step")
      .def_prop_ro("items", [](const NativeStep& s) { return s.step->items(); })
      .def_prop_ro("name", [](const NativeStep& s) { return s.step->name(); })
      .def_prop_ro("scratch", [](const NativeStep& s) { return s.step->scratch(); });
  nb::class_<Program>(m, "Program")
      .def(nb::init<>())
      .def("arena", &Program::arena, "nbytes"_a)
      .def("tensor", &Program::tensor, "offset"_a, "nbytes"_a)
      .def("constant", &add_constant, "array"_a.noconvert(), nb::keep_alive<1, 2>())
      .def("input", &Program::input, "nbytes"_a)
      .def("output", &Program::output, "nbytes"_a)
      .def(
          "window",
          [](Program& p, uint32_t block, size_t offset, size_t nbytes, size_t stride, size_t count,
             bool by_thread) {
            const auto of = by_thread ? Window::Of::thread : Window::Of::time;
            return p.window(of, block, offset, nbytes, stride, count);
          },
          "block"_a, "offset"_a, "nbytes"_a, "stride"_a, "count"_a, "by_thread"_a = false)
      .def("repeat", &Program::repeat, "times"_a)
      .def(
          "add", [](Program& p, const NativeStep& s) { p.add(s.step); }, "step"_a)
      .def("loops", &loops, "step"_a)
      .def("items", &items, "step"_a)
      .def_prop_ro("kernels", &kernels)
      .def("largest_share", &share, "step"_a, "threads"_a)
      .def("__len__", [](const Program& p) { return p.steps().size(); });
  nb::class_<ThreadPool>(m, "ThreadPool")
      .def(nb::init<int, bool>(), "threads"_a, "spin"_a)
      .def_prop_ro("threads", &ThreadPool::threads);
  nb::class_<Workspace>(m, "Workspace")
      .def(nb::new_(&make_workspace))
      .def_prop_ro("nbytes", &Workspace::bytes);
  nb::class_<Context>(m, "Context")
      .def(nb::init<const Program&, ThreadPool&, bool>(), "program"_a, "thread_pool"_a, "checked"_a = false,
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def(nb::init<const Program&, ThreadPool&, std::shared_ptr<Workspace>>(), "program"_a, "thread_pool"_a,
           "workspace"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def(
          "attach", [](Context& c, std::shared_ptr<Workspace> w) { c.attach(std::move(w)); }, "workspace"_a)
      .def(
          "place", [](Context& c, uint32_t b, AnyIn x) { c.place(b, x.data(), x.nbytes()); }, "block"_a,
          "array"_a.noconvert())
      .def("run", &run, "begin"_a, "end"_a, "seconds"_a.none() = nb::none())
      .def("arena", [](nb::handle_t<Context> self) { return arena(self); });
}

}  // namespace intact
