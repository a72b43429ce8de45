// float32 to codes (N11).
#include "engine/kinds.h"
#include "engine/kinds/fusible.h"
#include "steps/quantize.h"

namespace intact::engine {

Quantize::Quantize(Fields& f)
    : PlanStep(f, {.follows = true, .by_image = true, .writes_parts = true}),
      x(f.reads("x")),
      y(f.writes("y")) {}

void Quantize::bind(Binding& binding) const {
  const Codes& codes = binding.codes(y);
  binding.add(make_quantize(*binding.kernels.quantize, *binding.kernels.transpose,
                            {binding.view(x), binding.view(y), codes.scale32(), codes.grid()}));
}

std::unique_ptr<PlanStep> read_quantize(Fields& fields) { return std::make_unique<Quantize>(fields); }

}  // namespace intact::engine
