// Program and Context for Python: plans make programs (engine.cc), contexts run them.
#include "runtime/program.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  nb::class_<Program>(m, "Program")
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
      .def("run", &run, "begin"_a, "end"_a, "seconds"_a.none() = nb::none())
      .def("arena", [](nb::handle_t<Context> self) { return arena(self); });
}

}  // namespace intact
