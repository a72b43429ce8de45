// The Python binding of steps/function.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "steps/function.h"

namespace intact {
namespace {

std::vector<std::string> functions(const std::string& floats) {
  std::vector<std::string> names;
  for (const NamedFunction* f = kernel<FloatOps>(floats).functions; f->name; ++f) names.emplace_back(f->name);
  return names;
}

// The bounds of the fifth derivative, the error and the slopes, and the end, by name.
std::map<std::string, std::array<double, 5>> smooth_functions(const std::string& floats) {
  std::map<std::string, std::array<double, 5>> found;
  for (const NamedFunction* f = kernel<FloatOps>(floats).functions; f->name; ++f) {
    if (const SmoothFunction* s = f->smooth) {
      found[f->name] = {s->fifth, s->error, s->steepest, s->shallow, s->end};
    }
  }
  return found;
}

}  // namespace

void bind_step_function(nb::module_& m) {
  m.def("real_functions", &functions, "float_steps"_a);
  m.def("smooth_functions", &smooth_functions, "float_steps"_a);
  m.def(
      "step_function",
      [](const std::string& floats, const std::string& transpose, const RealIn& x, const RealOut& y,
         std::string function) {
        return native(make_function(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose),
                                    {x, y, std::move(function)}));
      },
      "float_steps"_a, "transpose"_a, "x"_a, "y"_a, "function"_a);
}

}  // namespace intact
