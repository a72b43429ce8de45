// Codes to float32 (N12).
#include "engine/binding.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "steps/dequantize.h"

namespace intact::engine {
namespace {

struct Dequantize final : PlanStep {
  explicit Dequantize(Fields& f)
      : PlanStep(f, {.follows = true, .by_image = true, .writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")) {}
  void bind(Binding& binding) const override {
    const Codes& codes = binding.codes(x);
    binding.add(make_dequantize(*binding.kernels.quantize, *binding.kernels.transpose,
                                {binding.view(x), binding.view(y), codes.scale32(), codes.zero()}));
  }
  int x, y;
};

}  // namespace

std::unique_ptr<PlanStep> read_dequantize(Fields& fields) { return std::make_unique<Dequantize>(fields); }

}  // namespace intact::engine
