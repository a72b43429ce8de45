// Convolution of float32 with constant weights [out, kernel_h, kernel_w, in / groups], from the bias [out] on
// (N51). Padding reads +0.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/float_filters.h"
#include "engine/kinds/window.h"
#include "steps/float_conv.h"

namespace intact::engine {
namespace {

struct FloatConv final : PlanStep {
  explicit FloatConv(Fields& f)
      : PlanStep(f, {.images = true, .by_image = true, .writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        weight(f.constant("weight", Type::f32, 4)),
        bias(f.constant("bias", Type::f32, 1, true)),
        strides(f.pair("strides")),
        dilations(f.pair("dilations")),
        pads(f.integers_of<4>("pads")),
        groups(f.integer("groups")) {}

  Halo halo(const Plan&, int value) const override { return value == x ? pads : kNoHalo; }

  void bind(Binding& binding) const override {
    const FloatGemmOps& ops = *binding.kernels.float_gemm;
    const Shape& w = binding.shape(weight);
    const std::string form = std::string(intact::name_of(&ops)) + ".filters" + std::to_string(groups);
    const Bytes packed = binding.packed(weight, form, [&](const Bytes& b) {
      return pack_filters(ops, b.as<float>().data(), w[0], w[1] * w[2], w[3], groups);
    });
    FloatConvSpec spec{binding.image(x),     binding.image(y), packed_floats(packed),
                       {w[1], w[2]},         strides,          dilations,
                       {-pads[0], -pads[1]}, groups,           {}};
    if (bias != kNoValue) spec.start = binding.constant(bias);
    binding.add(make_float_conv(ops, spec));
  }

  int x, y, weight, bias;
  std::array<int64_t, 2> strides, dilations;
  std::array<int64_t, 4> pads;
  int64_t groups;
};

}  // namespace

std::unique_ptr<PlanStep> read_float_conv(Fields& fields) { return std::make_unique<FloatConv>(fields); }

}  // namespace intact::engine
