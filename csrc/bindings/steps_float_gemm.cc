// Packed weights of float32, and the steps of products and convolutions of floats.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings/bindings.h"
#include "steps/float_conv.h"
#include "steps/float_matmul.h"

namespace intact {
namespace {

using Matrices = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Pair = std::array<int64_t, 2>;

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

PackedFloats packed_of(const Vector& packed) {
  return {packed.data(), packed.size(), keep(nb::cast(packed))};
}

NativeStep matmul(const std::string& name, const std::string& transpose, const View& a, const View& y,
                  const std::optional<View>& b, const std::optional<Vector>& packed,
                  const std::optional<View>& start) {
  require(b.has_value() != packed.has_value(), "a right side is a view, or packed");
  const FloatMatMulSpec spec{a, y, b, packed ? packed_of(*packed) : PackedFloats{}, start};
  return native(make_float_matmul(kernel<FloatGemmOps>(name), kernel<TransposeOps>(transpose), spec));
}

NativeStep conv(const std::string& name, const View& x, const View& y, const Vector& packed, Pair kernel_size,
                Pair strides, Pair dilations, Pair origin, int64_t groups, const std::optional<View>& start) {
  const FloatConvSpec spec{x, y, packed_of(packed), kernel_size, strides, dilations, origin, groups, start};
  return native(make_float_conv(kernel<FloatGemmOps>(name), spec));
}

}  // namespace

void bind_float_gemm(nb::module_& m) {
  m.def("float_panel", [](const std::string& name) { return kernel<FloatGemmOps>(name).panel; }, "kernel"_a);
  m.def("pack_floats", &pack, "kernel"_a, "b"_a.noconvert(), "to"_a.noconvert());
  m.def("step_float_matmul", &matmul, "kernel"_a, "transpose"_a, "a"_a, "y"_a, "b"_a.none(),
        "packed"_a.noconvert().none(), "start"_a.none());
  m.def("step_float_conv", &conv, "kernel"_a, "x"_a, "y"_a, "packed"_a.noconvert(), "kernel_size"_a,
        "strides"_a, "dilations"_a, "origin"_a, "groups"_a, "start"_a.none());
}

}  // namespace intact
