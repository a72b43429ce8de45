// The record of an epilogue as Python fills it, field by field, for the makers of all steps that form sums.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "steps/common/epilogue.h"

namespace intact {
namespace {

// A field of one number for each channel: an array of its dtype, copied both ways.
template <class T>
void bind_channels(nb::class_<EpilogueSpec>& record, const char* name, std::vector<T> EpilogueSpec::* field) {
  record.def_prop_rw(
      name,
      [field](const EpilogueSpec& e) {
        return nb::ndarray<nb::numpy, const T>((e.*field).data(), {(e.*field).size()});
      },
      [field](EpilogueSpec& e, const Dense<const T>& values) {
        (e.*field).assign(values.data(), values.data() + values.size());
      },
      nb::for_getter(nb::rv_policy::copy), nb::for_setter("values"_a.noconvert()));
}

// `function` is of the kernel `ops` of functions of floats; "" for none.
void set_function(EpilogueSpec& e, const std::string& ops, const std::string& function) {
  e.ops = &kernel<FloatOps>(ops);
  if (function.empty()) return;
  const NamedFunction* const named = find_function(*e.ops, function.c_str());
  require(named != nullptr, "no such function of floats");
  e.function = named->function;
  e.curve = named->codes;
  e.smooth = named->smooth;
}

}  // namespace

void bind_epilogue(nb::module_& m) {
  nb::class_<EpilogueSpec> record(m, "EpilogueSpec");
  record.def(nb::init<>())
      .def_rw("floats", &EpilogueSpec::floats)
      .def_rw("zero_point", &EpilogueSpec::zero_point)
      .def_rw("low", &EpilogueSpec::low)
      .def_rw("high", &EpilogueSpec::high)
      .def_rw("real_low", &EpilogueSpec::real_low)
      .def_rw("real_high", &EpilogueSpec::real_high)
      .def_rw("residual", &EpilogueSpec::residual, nb::for_setter("view"_a.none()))
      .def_rw("residual_multiplier", &EpilogueSpec::residual_multiplier)
      .def_rw("residual_zero_point", &EpilogueSpec::residual_zero_point)
      .def_rw("scale", &EpilogueSpec::scale)
      .def_rw("divides", &EpilogueSpec::divides)
      .def_rw("quotient", &EpilogueSpec::quotient)
      .def("set_function", &set_function, "ops"_a, "function"_a);
  bind_channels(record, "correction", &EpilogueSpec::correction);
  bind_channels(record, "multiplier", &EpilogueSpec::multiplier);
  bind_channels(record, "bias", &EpilogueSpec::bias);
  bind_channels(record, "factors", &EpilogueSpec::factors);
  bind_channels(record, "offsets", &EpilogueSpec::offsets);
  bind_channels(record, "slopes", &EpilogueSpec::slopes);
  bind_channels(record, "gains", &EpilogueSpec::gains);
  bind_channels(record, "shifts", &EpilogueSpec::shifts);
}

}  // namespace intact
