// Transposed convolution of float32 with constant weights, from the bias [out] on (N51). An output that no
// tap reaches has a window of one pixel of 0, times -0: their sum with a bias of -0 is -0 as well.
#include "engine/kinds.h"
#include "engine/kinds/float_filters.h"
#include "engine/kinds/transposed.h"
#include "engine/kinds/views.h"
#include "steps/float_conv.h"

namespace intact::engine {
namespace {

struct FloatConvTranspose final : PlanStep {
  explicit FloatConvTranspose(Fields& f)
      : PlanStep(f, {.images = true, .by_image = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        weight(f.constant("weight", Type::f32, 4)),
        bias(f.constant("bias", Type::f32, 1, true)),
        window(f) {}

  Shape output_shape(const Sizes& sizes) const override {
    return window.output_shape(sizes, x, sizes.of(weight));
  }
  Halo halo(const Plan& plan, int value) const override {
    return value == x ? window.halo(plan.constant(weight).shape) : kNoHalo;
  }

  void bind(Binding& binding) const override {
    const Shape& w = binding.shape(weight);
    const View to = binding.image(y);
    const auto down = phases_of(w[1], window.strides[0], window.dilations[0], window.pads[0]);
    const auto across = phases_of(w[2], window.strides[1], window.dilations[1], window.pads[1]);
    for (const PhaseBlock& block : phase_blocks(down, across, window.groups, {&to}))
      add_part(block, to, binding);
  }

  void add_part(const PhaseBlock& block, const View& to, Binding& binding) const {
    const FloatGemmOps& ops = *binding.kernels.float_gemm;
    const Shape& w = binding.shape(weight);
    const Phase &h = *block.down, &v = *block.across[0];
    const auto number = static_cast<int64_t>(block.across.size());
    const View part = every_pixel(to, {h.first, v.first}, window.strides, number);
    Pair kernel{static_cast<int64_t>(h.taps.size()), static_cast<int64_t>(v.taps.size())};
    const bool empty = kernel[0] * kernel[1] == 0;
    if (empty) kernel = {1, 1};
    const std::string form =
        std::string(intact::name_of(&ops)) + ".filters" + std::to_string(window.groups) + "." + block.label;
    const Bytes packed = binding.packed(weight, form, [&](const Bytes& b) {
      std::vector<float> taps = taps_of(b.as<float>().data(), w, block);
      if (empty) taps.assign(static_cast<size_t>(w[0] * number * w[3]), -0.0f);
      return pack_filters(ops, taps.data(), w[0] * number, kernel[0] * kernel[1], w[3], window.groups);
    });
    FloatConvSpec spec{binding.image(x),
                       part,
                       packed_floats(packed),
                       kernel,
                       {1, 1},
                       {h.dilation, v.dilation},
                       {h.origin, v.origin},
                       window.groups,
                       {}};
    if (empty) {
      spec.x = nothing(part, spec.x.sizes[3], binding);
      spec.origin = {0, 0};
    }
    if (bias != kNoValue) {
      const auto own = binding.array<float>(bias);
      std::vector<float> starts;
      for (int64_t n = 0; n < number; ++n) starts.insert(starts.end(), own.begin(), own.end());
      spec.start = number == 1 ? binding.constant(bias) : binding.hold(starts, Type::f32, {number * w[0]});
    }
    binding.add(make_float_conv(ops, spec));
  }

  // An image of 0, as many pixels as `part` has, all of them one.
  static View nothing(const View& part, int64_t channels, Binding& binding) {
    const std::vector<float> zeros(static_cast<size_t>(channels) + kSlack, 0.0f);
    const View still = binding.hold(zeros, Type::f32, {static_cast<int64_t>(zeros.size())});
    return part_of(still, still.offset, {part.sizes[0], part.sizes[1], part.sizes[2], channels},
                   {0, 0, 0, 4});
  }

  int x, y, weight, bias;
  TransposedWindow window;
};

}  // namespace

std::unique_ptr<PlanStep> read_float_conv_transpose(Fields& fields) {
  return std::make_unique<FloatConvTranspose>(fields);
}

}  // namespace intact::engine
