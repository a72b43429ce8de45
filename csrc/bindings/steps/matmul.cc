// The Python binding of steps/matmul.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "bindings/bindings.h"
#include "steps/matmul.h"

namespace intact {

void bind_step_matmul(nb::module_& m) {
  nb::class_<MatMulSpec>(m, "MatMulSpec")
      .def(nb::new_([](const View& a, const View& b, const View& y, std::array<int32_t, 2> zeros,
                       const EpilogueSpec& epilogue) {
             return MatMulSpec{a, b, y, {zeros[0], zeros[1]}, settle_product(epilogue)};
           }),
           "a"_a, "b"_a, "y"_a, "zeros"_a, "epilogue"_a);
  m.def(
      "step_matmul",
      [](const std::string& matmul, const MatMulSpec& product) {
        return native(make_matmul(kernel<MatMulOps>(matmul), product));
      },
      "matmul"_a, "product"_a);
}

}  // namespace intact
