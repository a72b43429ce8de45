// The gemm kernels of this build against the plain one, sums and epilogues, on random layers: for instruction
// sets that run elsewhere, under an emulator or through the instructions of another set.
#include <array>
#include <vector>

#include "driver.h"
#include "kernels/gemm/packed.h"
#include "steps/conv.h"
#if defined(INTACT_AMX)
#include "tiles.h"
#endif

namespace intact {

// The registry's, whose other families are no part of this program.
const char* name_of(const void*) { return "gemm"; }

namespace {

const Named<GemmOps> kKernels[] = {
#define INTACT_KERNEL(name, needs) {#name, &name},
#include "kernels/gemm/kernels.inc"
#undef INTACT_KERNEL
};

struct Layer {
  GemmWeights weights;
  int height, width, out_height, out_width;
  std::array<int64_t, 2> strides, dilations;
  bool floats, residual, wide, divided, gained;
  std::vector<int8_t> w;
  std::vector<uint8_t> x, low, r;
  std::vector<int32_t> correction, high_correction;
  int shift = pick(0, 7);
  float low_end = pick(0, 1) == 0 ? -50.0f : 0.0f;
  std::vector<float> multiplier, bias, gains, shifts;

  Layer() {
    const int groups = pick(1, 4) == 1 ? 2 : 1;
    const int high = pick(0, 1) == 0 ? 127 : 255;
    strides = {pick(1, 2), pick(1, 2)};
    dilations = {pick(1, 2), pick(1, 2)};
    const bool joined = groups == 1 && dilations[1] == 1 && pick(1, 3) != 1;
    weights = {pick(1, 90) * groups, pick(1, 3), pick(1, 3), pick(1, 80), groups, joined, high};
    height = (weights.kernel_h - 1) * static_cast<int>(dilations[0]) + 1 + pick(0, 6);
    width = (weights.kernel_w - 1) * static_cast<int>(dilations[1]) + 1 + pick(0, pick(0, 1) * 60 + 5);
    out_height = positions(height, weights.kernel_h, 0);
    out_width = positions(width, weights.kernel_w, 1);
    floats = pick(1, 4) == 1;
    residual = pick(1, 2) == 1;
    divided = pick(1, 2) == 1;
    gained = pick(1, 5) == 1;
    wide = pick(1, 3) == 1;  // codes of 16 bits; the sums of such small weights fit int32
    w.resize(static_cast<size_t>(weights.out) * weights.kernel_h * weights.kernel_w * weights.in);
    for (int8_t& v : w) v = static_cast<int8_t>(wide ? pick(-8, 8) : static_cast<int>(random_bits()));
    x.resize(static_cast<size_t>(height) * width * weights.in * groups + kSlack);
    for (uint8_t& v : x) v = static_cast<uint8_t>(pick(0, weights.high));
    if (wide) low = x;
    for (uint8_t& v : low) v = static_cast<uint8_t>(pick(0, weights.high));
    r.resize(static_cast<size_t>(out_height) * out_width * weights.out);
    for (uint8_t& v : r) v = static_cast<uint8_t>(random_bits());
    for (int c = 0; c < weights.out; ++c) {
      correction.push_back(pick(-5000, 5000));
      high_correction.push_back(pick(-500, 500));
      multiplier.push_back(static_cast<float>(pick(-1000, 1000)) * 1e-6f);
      bias.push_back(static_cast<float>(pick(0, 2000)) * 0.1f);
      gains.push_back(static_cast<float>(pick(-20, 20)) * 0.1f);
      shifts.push_back(static_cast<float>(pick(0, 1000)) * 0.1f);
      if (pick(1, 8) == 1) multiplier.back() = bias.back() = shifts.back() = -0.0f;  // a real of -0
    }
  }

  int positions(int size, int kernel, size_t axis) const {
    return (size - (kernel - 1) * static_cast<int>(dilations[axis]) - 1) / static_cast<int>(strides[axis]) +
           1;
  }
};

View image(uint32_t block, Type type, int h, int w, int c) {
  View v;
  v.block = block;
  v.type = type;
  v.rank = 4;
  const auto unit = static_cast<int64_t>(bytes_of(type));
  v.sizes = {1, h, w, c};
  v.strides = {h * w * c * unit, w * c * unit, c * unit, unit};
  return v;
}

std::vector<uint8_t> run(const Layer& layer, const GemmOps& ops) {
  const GemmWeights& g = layer.weights;
  const std::vector<uint8_t> packed = pack_gemm(g, layer.w.data(), ops);
  ConvViews spec{};
  ConvLayerSpec of{&ops, {packed.data(), packed.size(), nullptr}, {}};
  spec.x = image(0, Type::u8, layer.height, layer.width, g.in * g.groups);
  spec.x.high = static_cast<uint8_t>(g.high);
  if (layer.wide) {
    spec.low = spec.x;
    spec.low->block = 3;
    of.is_wide = true;
    of.shift = layer.shift;
    of.high_correction = layer.high_correction;
  }
  spec.y = image(1, layer.floats ? Type::f32 : Type::u8, layer.out_height, layer.out_width, g.out);
  if (layer.residual) spec.residual = image(2, Type::u8, layer.out_height, layer.out_width, g.out);
  of.epilogue.residual = spec.residual;
  of.epilogue.correction = layer.correction;
  of.epilogue.multiplier = layer.multiplier;
  of.epilogue.bias = layer.bias;
  spec.strides = layer.strides;
  spec.dilations = layer.dilations;
  of.epilogue.floats = layer.floats;
  of.epilogue.zero_point = 11;
  of.epilogue.low = 3;
  of.epilogue.high = 250;
  of.epilogue.real_low = layer.low_end;
  of.epilogue.real_high = 150;
  of.epilogue.residual_zero_point = 9;
  of.epilogue.residual_multiplier = 0.37f;
  of.epilogue.divides = !layer.floats && (layer.residual || layer.divided || layer.gained);
  of.epilogue.scale = 0.87f;
  if (layer.gained) {
    of.epilogue.gains = layer.gains;
    of.epilogue.shifts = layer.shifts;
  }
  const std::unique_ptr<Step> step = make_conv({spec, std::make_shared<const ConvLayer>(of)});
  std::vector<uint8_t> x = layer.x, low = layer.low, r = layer.r;
  std::vector<uint8_t> y(static_cast<size_t>(spec.y.elements()) * bytes_of(spec.y.type));
  uint8_t* const blocks[] = {x.data(), y.data(), r.data(), low.data()};
  run_whole(*step, blocks);
  return y;
}

}  // namespace
}  // namespace intact

int main(int count, char** arguments) {
#if defined(INTACT_AMX)
  if ((intact::cpu_features() & intact::isa::amx) == 0 || !intact::acquire(intact::isa::amx)) {
    tiles::emulate();
  }
#endif
  const int status = intact::compare(intact::kKernels, count, arguments, 150, "layers", [](const auto& ops) {
    const intact::Layer layer;
    return intact::run(layer, ops) != intact::run(layer, intact::gemm_ref);
  });
#if defined(INTACT_AMX)
  std::printf("%ld products of tiles were emulated\n", tiles::state.products);
#endif
  return status;
}
