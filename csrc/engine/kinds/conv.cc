// Convolution of codes with constant int8 weights (N19 to N25), [out, kernel_h, kernel_w, in / groups];
// padding reads the zero point. `low`: the low bytes, where x is the high ones of codes of 16 bits (N62).
#include "engine/kinds.h"
#include "engine/kinds/conv_forms.h"
#include "engine/kinds/low_bytes.h"
#include "engine/kinds/window.h"
#include "steps/depthwise.h"

namespace intact::engine {
namespace {

struct Conv final : PlanStep {
  explicit Conv(Fields& f)
      : PlanStep(f, {.images = true, .by_image = true, .writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        weight(f.constant("weight", Type::i8, 4)),
        epilogue(f),
        strides(f.pair("strides")),
        dilations(f.pair("dilations")),
        pads(f.integers_of<4>("pads")),
        groups(f.integer("groups")),
        low(f.reads("low", true)),
        shift(f.integer("shift")) {
    in_place = {epilogue.residual};
  }

  void check(const Checker& checker) const override {
    check_low(checker, x, low, shift);
    epilogue.check(checker, checker.sizes(weight)[0]);
  }

  Halo halo(const Plan&, int value) const override { return value == x || value == low ? pads : kNoHalo; }

  void bind(Binding& binding) const override {
    const Shape& w = binding.shape(weight);
    PartialConv part{weight,
                     {w[0], w[1], w[2], w[3], {}},
                     binding.image(x),
                     binding.image(y),
                     {},
                     {},
                     strides,
                     dilations,
                     {-pads[0], -pads[1]},
                     groups,
                     1,
                     ""};
    if (epilogue.residual != kNoValue) part.residual = binding.image(epilogue.residual);
    if (low != kNoValue) part.low = binding.image(low);
    const bool by_channel = groups > 1 && w[3] == 1 && w[0] == groups && shift == 0;
    if (by_channel) {
      binding.add(depthwise(part, binding));
    } else {
      add_conv(std::move(part), {epilogue, x, y, low, shift}, binding);
    }
  }

  // Each channel by itself has kernels of its own.
  std::unique_ptr<Step> depthwise(const PartialConv& part, Binding& binding) const {
    const DepthwiseOps& ops = *binding.kernels.depthwise;
    const auto two = [](const auto& values) {
      return std::array{static_cast<int>(values[0]), static_cast<int>(values[1])};
    };
    const DepthwiseSpec spec{part.x,    part.y,   two(strides), two(dilations),
                             two(pads), part.low, part.residual};
    const size_t pixels = joined_pixels(ops, spec);
    return make_depthwise(
        binding.part<DepthwiseLayer>("by channel." + std::to_string(pixels),
                                     [&] { return depthwise_layer(ops, part, pixels, binding); }),
        spec);
  }

  std::shared_ptr<const DepthwiseLayer> depthwise_layer(const DepthwiseOps& ops, const PartialConv& part,
                                                        size_t pixels, Binding& binding) const {
    const auto values = binding.array<int8_t>(weight);
    const auto channels = static_cast<size_t>(part.weight.out), taps = values.size() / channels;
    demand(part.weight.kernel_h <= kMostTaps && part.weight.kernel_w <= kMostTaps && channels < (1u << 24),
           "weights are [kernel_h, kernel_w, channels]");
    std::vector<int8_t> by_tap(values.size());
    const int64_t zero = low == kNoValue ? binding.codes(x).zero()
                                         : int64_t{256} * binding.codes(x).zero() + binding.codes(low).zero();
    std::vector<int64_t> correction(channels);
    for (size_t c = 0; c < channels; ++c) {
      for (size_t t = 0; t < taps; ++t) {
        by_tap[t * channels + c] = values[c * taps + t];
        correction[c] -= zero * values[c * taps + t];
      }
    }
    DepthwiseWeights filters{};
    filters.kernel_h = static_cast<int>(part.weight.kernel_h);
    filters.kernel_w = static_cast<int>(part.weight.kernel_w);
    filters.channels = static_cast<int>(channels);
    filters.weight = by_tap.data();
    filters.high = std::max<int>(part.x.high, part.low ? part.low->high : 0);
    filters.joins = part.low.has_value();
    return std::make_shared<const DepthwiseLayer>(
        ops, filters, bind_epilogue(epilogue, y, binding, {part.weight.out, 1, correction, part.residual}),
        pixels);
  }

  int x, y, weight;
  EpilogueRecord epilogue;
  Pair strides, dilations;
  std::array<int64_t, 4> pads;
  int64_t groups;
  int low;
  int64_t shift;
};

}  // namespace

std::unique_ptr<PlanStep> read_conv(Fields& fields) { return std::make_unique<Conv>(fields); }

}  // namespace intact::engine
