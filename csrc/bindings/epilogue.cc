// The one parser of epilogues, for the makers of all steps that form sums.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "steps/epilogue.h"

namespace intact {
namespace {

template <class T>
std::vector<T> values_of(const Dense<const T>& array) {
  return {array.data(), array.data() + array.size()};
}

// `function` is of the kernel `ops` of functions of floats; "" for none.
EpilogueSpec make_epilogue(bool floats, const FloatsIn& multiplier, const FloatsIn& bias,
                           const Dense<const int32_t>& correction, int zero_point, int low, int high,
                           float real_low, float real_high, const std::optional<View>& residual,
                           float residual_multiplier, int residual_zero_point, const std::string& ops,
                           const std::string& function, float scale, const FloatsIn& factors,
                           const FloatsIn& slopes, const FloatsIn& offsets, bool divides,
                           const FloatsIn& gains, const FloatsIn& shifts, float quotient) {
  EpilogueSpec e;
  e.floats = floats;
  e.multiplier = values_of(multiplier);
  e.bias = values_of(bias);
  e.correction = values_of(correction);
  e.zero_point = zero_point;
  e.low = low;
  e.high = high;
  e.real_low = real_low;
  e.real_high = real_high;
  e.residual = residual;
  e.residual_multiplier = residual_multiplier;
  e.residual_zero_point = residual_zero_point;
  e.ops = &kernel<FloatOps>(ops);
  e.scale = scale;
  e.factors = values_of(factors);
  e.slopes = values_of(slopes);
  e.offsets = values_of(offsets);
  e.divides = divides;
  e.gains = values_of(gains);
  e.shifts = values_of(shifts);
  e.quotient = quotient;
  if (!function.empty()) {
    const NamedFunction* const found = find_function(*e.ops, function.c_str());
    require(found != nullptr, "no such function of floats");
    e.function = found->function;
    e.curve = found->codes;
    e.smooth = found->smooth;
  }
  return e;
}

}  // namespace

void bind_epilogue(nb::module_& m) {
  nb::class_<EpilogueSpec>(m, "EpilogueSpec")
      .def(nb::new_(&make_epilogue), "floats"_a, "multiplier"_a.noconvert(), "bias"_a.noconvert(),
           "correction"_a.noconvert(), "zero_point"_a, "low"_a, "high"_a, "real_low"_a, "real_high"_a,
           "residual"_a.none(), "residual_multiplier"_a, "residual_zero_point"_a, "ops"_a, "function"_a,
           "scale"_a, "factors"_a.noconvert(), "slopes"_a.noconvert(), "offsets"_a.noconvert(), "divides"_a,
           "gains"_a.noconvert(), "shifts"_a.noconvert(), "quotient"_a);
}

}  // namespace intact
