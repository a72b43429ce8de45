// The Python binding of steps/recurrent.h.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "steps/recurrent.h"

namespace intact {
namespace {

NativeStep recurrent(const std::string& floats, const std::string& products, const std::string& cell,
                     const View& x, const View& packed, int64_t hidden, std::vector<bool> reverse,
                     const std::optional<View>& bias, const std::optional<RealIn>& h,
                     const std::optional<RealIn>& c, const std::optional<View>& lengths,
                     const std::optional<RealOut>& y, const std::optional<RealOut>& last_h,
                     const std::optional<RealOut>& last_c, int threads) {
  const auto kind = cell_of(cell);
  require(kind.has_value(), "no such recurrent cell");
  const RecurrentSpec spec{*kind,  hidden, std::move(reverse), x, packed, {}, bias, h, c, lengths, y, last_h,
                           last_c, threads};
  return native(make_recurrent(kernel<FloatOps>(floats), kernel<FloatGemmOps>(products), spec));
}

}  // namespace

void bind_step_recurrent(nb::module_& m) {
  m.def("step_recurrent", &recurrent, "float_steps"_a, "float_gemm"_a, "cell"_a, "x"_a, "packed"_a,
        "hidden"_a, "reverse"_a, "bias"_a.none(), "h"_a.none(), "c"_a.none(), "lengths"_a.none(),
        "y"_a.none(), "last_h"_a.none(), "last_c"_a.none(), "threads"_a);
}

}  // namespace intact
