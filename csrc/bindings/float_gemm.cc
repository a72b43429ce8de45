// Weights of products of floats, packed for a kernel.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "kernels/float_gemm/float_gemm.h"

namespace intact {
namespace {

using Matrices = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// [groups][k][columns], as many matrices of panels.
void pack(const std::string& name, Matrices b, FloatsOut to) {
  const FloatGemmOps& ops = kernel<FloatGemmOps>(name);
  const size_t k = b.shape(1), columns = b.shape(2);
  const size_t each = (columns + ops.panel - 1) / ops.panel * ops.panel * k;
  require(to.size() == each * b.shape(0), "room for the panels of all columns");
  for (size_t g = 0; g < b.shape(0); ++g) {
    ops.pack(b.data() + g * k * columns, static_cast<ptrdiff_t>(columns), 1, k, columns,
             to.data() + g * each);
  }
}

}  // namespace

void bind_float_gemm(nb::module_& m) {
  m.def("float_panel", [](const std::string& name) { return kernel<FloatGemmOps>(name).panel; }, "kernel"_a);
  m.def("pack_floats", &pack, "kernel"_a, "b"_a.noconvert(), "to"_a.noconvert());
}

}  // namespace intact
