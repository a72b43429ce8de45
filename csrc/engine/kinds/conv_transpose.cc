// Transposed convolution of codes; weights int8 [out, kernel_h, kernel_w, in / groups], not flipped.
#include "engine/kinds.h"
#include "engine/kinds/conv_forms.h"
#include "engine/kinds/low_bytes.h"
#include "engine/kinds/transposed.h"
#include "engine/kinds/views.h"

namespace intact::engine {
namespace {

struct ConvTranspose final : PlanStep {
  explicit ConvTranspose(Fields& f)
      : PlanStep(f, {.images = true, .by_image = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        weight(f.constant("weight", Type::i8, 4)),
        epilogue(f),
        window(f) {}

  void check(const Checker& checker) const override { epilogue.check(checker, checker.sizes(weight)[0]); }

  Shape output_shape(const Sizes& sizes) const override {
    return window.output_shape(sizes, x, sizes.of(weight));
  }
  Halo halo(const Plan& plan, int value) const override {
    return value == x ? window.halo(plan.constant(weight).shape) : kNoHalo;
  }

  void bind(Binding& binding) const override {
    const Shape& w = binding.shape(weight);
    const View from = binding.image(x), to = binding.image(y);
    std::optional<View> residual;
    if (epilogue.residual != kNoValue) residual = binding.image(epilogue.residual);
    std::vector<const View*> images{&to};
    if (residual) images.push_back(&*residual);
    const auto down = phases_of(w[1], window.strides[0], window.dilations[0], window.pads[0]);
    const auto across = phases_of(w[2], window.strides[1], window.dilations[1], window.pads[1]);
    for (const PhaseBlock& block : phase_blocks(down, across, window.groups, images)) {
      const Phase &h = *block.down, &v = *block.across[0];
      const auto number = static_cast<int64_t>(block.across.size());
      const Pair first{h.first, v.first};
      PartialConv part{
          weight,
          {w[0] * number, static_cast<int64_t>(h.taps.size()), static_cast<int64_t>(v.taps.size()), w[3],
           [&](const int8_t* all) { return taps_of(all, w, block); }},
          from,
          every_pixel(to, first, window.strides, number),
          {},
          {},
          {1, 1},
          {h.dilation, v.dilation},
          {h.origin, v.origin},
          window.groups,
          number,
          "." + block.label};
      if (residual) part.residual = every_pixel(*residual, first, window.strides, number);
      if (h.taps.empty() || v.taps.empty()) leave_untouched(part, binding);
      add_conv(std::move(part), {epilogue, x, y}, binding);
    }
  }

  // Outputs that no tap reaches: one tap of weight 0, on a pixel of their own: x may have none.
  static void leave_untouched(PartialConv& part, Binding& binding) {
    const int64_t channels = part.x.sizes[3];
    const std::vector<uint8_t> nothing(static_cast<size_t>(channels) + kSlack, 0);
    const View still = binding.hold(nothing, Type::u8, {static_cast<int64_t>(nothing.size())});
    part.x = part_of(still, still.offset, {part.y.sizes[0], part.y.sizes[1], part.y.sizes[2], channels},
                     {0, 0, 0, 1});
    part.weight.kernel_h = part.weight.kernel_w = 1;
    const auto count = static_cast<size_t>(part.weight.out * part.weight.in);
    part.weight.make = [count](const int8_t*) { return std::vector<int8_t>(count, 0); };
    part.dilations = {1, 1};
    part.origin = {0, 0};
  }

  int x, y, weight;
  EpilogueRecord epilogue;
  TransposedWindow window;
};

}  // namespace

std::unique_ptr<PlanStep> read_conv_transpose(Fields& fields) {
  return std::make_unique<ConvTranspose>(fields);
}

}  // namespace intact::engine
