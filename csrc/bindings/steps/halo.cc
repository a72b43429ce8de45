// The Python binding of steps/halo.h.

#include "bindings/bindings.h"
#include "steps/halo.h"

namespace intact {

void bind_step_halo(nb::module_& m) {
  m.def(
      "step_halo", [](const View& image, uint8_t value) { return native(make_halo({image, value})); },
      "image"_a, "value"_a);
}

}  // namespace intact
