// Steps of random views and numbers, sound and unsound ones: what its maker and Program::add accept must
// stay inside its blocks when it runs. Under AddressSanitizer every block is a heap array of its own.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/registry.h"
#include "runtime/context.h"
#include "steps/add.h"
#include "steps/arg_max.h"
#include "steps/binary.h"
#include "steps/clip.h"
#include "steps/conv.h"
#include "steps/copy.h"
#include "steps/cum_sum.h"
#include "steps/depthwise.h"
#include "steps/dequantize.h"
#include "steps/elementwise.h"
#include "steps/fake_quantize.h"
#include "steps/fill.h"
#include "steps/fold.h"
#include "steps/function.h"
#include "steps/gather.h"
#include "steps/gather_elements.h"
#include "steps/halo.h"
#include "steps/interpolate.h"
#include "steps/layer_norm.h"
#include "steps/matmul.h"
#include "steps/pool.h"
#include "steps/quantize.h"
#include "steps/reduce.h"
#include "steps/rescale.h"
#include "steps/resize.h"
#include "steps/softmax.h"
#include "steps/split_quantize.h"
#include "steps/table.h"
#include "steps/winograd.h"

namespace intact {
namespace {

constexpr size_t kArena = 24 << 10, kInput = 5000, kOutput = 6000, kConstant = 4096;
enum : uint32_t { kArenaBlock, kConstantBlock, kInputBlock, kOutputBlock };

std::mt19937 random_bits(20240817);

int64_t pick(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random_bits() % static_cast<uint64_t>(high - low + 1));
}
bool chance(int64_t one_in) { return pick(1, one_in) == 1; }

template <class T>
void fill(std::vector<T>& values) {
  for (T& v : values) v = static_cast<T>(random_bits());
}
std::vector<float> floats(size_t n) {
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(pick(-1000, 1000)) * 1e-3f;
  return values;
}

// A kernel of a family that this machine runs.
template <class Ops>
const Ops& some_kernel(const char* family) {
  std::vector<const char*> names;
  size_t count = 0;
  const KernelInfo* all = all_kernels(&count);
  for (size_t i = 0; i < count; ++i) {
    const bool runs = (all[i].needs & cpu_features()) == all[i].needs;
    if (runs && std::strcmp(all[i].family, family) == 0) names.push_back(all[i].name);
  }
  return *find_kernel<Ops>(names[static_cast<size_t>(pick(0, static_cast<int64_t>(names.size()) - 1))]);
}

// Changes one number of a view a little, now and then.
View disturbed(View v) {
  if (!chance(4) || v.rank == 0) return v;
  const auto axis = static_cast<size_t>(pick(0, v.rank - 1));
  switch (pick(0, 5)) {
    case 0: v.sizes[axis] += pick(-1, 1); break;
    case 1: v.strides[axis] += pick(-8, 8); break;
    case 2: v.offset += static_cast<size_t>(pick(-64, 64)); break;
    case 3: v.halo[static_cast<size_t>(pick(0, 3))] += pick(-1, 2); break;
    case 4: v.strides[axis] = pick(0, 1) == 0 ? 0 : -v.strides[axis]; break;
    default: v.sizes[axis] = pick(0, 1) == 0 ? 0 : int64_t{1} << pick(8, 62); break;
  }
  return v;
}

// Row-major, in the arena at a random place or in a whole block; the halo is of the axes 1 and 2.
View dense(uint32_t block, Type type, const std::vector<int64_t>& sizes, std::array<int64_t, 4> halo = {}) {
  View v;
  v.block = block;
  v.type = type;
  v.rank = static_cast<int>(sizes.size());
  v.halo = halo;
  auto stride = static_cast<int64_t>(bytes_of(type));
  for (int i = v.rank - 1; i >= 0; --i) {
    v.sizes[i] = std::clamp<int64_t>(sizes[static_cast<size_t>(i)], 0, 999);  // others may be disturbed
    v.strides[i] = stride;
    const bool image = v.rank == 4 && (i == 1 || i == 2);
    stride *= v.sizes[i] + (image ? v.halo[i - 1] + v.halo[i + 1] : 0);
  }
  if (v.rank == 4) v.offset = static_cast<size_t>(halo[0] * v.strides[1] + halo[1] * v.strides[2]);
  const auto room = static_cast<int64_t>(block == kArenaBlock   ? kArena
                                         : block == kInputBlock ? kInput
                                                                : kOutput);
  if (stride < room) v.offset += static_cast<size_t>(pick(0, (room - stride) / 8) * 8);
  return v;
}

uint32_t readable() { return chance(4) ? kInputBlock : kArenaBlock; }
// Inputs of a step do not overlap its outputs: the binder sees to that.
uint32_t writable() { return kOutputBlock; }

std::vector<int64_t> some_sizes(int most = 5) {
  std::vector<int64_t> sizes(static_cast<size_t>(pick(0, most)));
  for (int64_t& n : sizes) n = pick(1, 7);
  return sizes;
}

ByteGrid some_grid() {
  const auto low = static_cast<int32_t>(pick(0, 255));
  return {static_cast<int32_t>(pick(-300, 300)), low,
          static_cast<int32_t>(pick(low - (chance(9) ? 1 : 0), 255))};
}

// Sizes with axes in a random order, for views that are walked together.
View turned(const View& v) {
  View t = v;
  for (int i = v.rank - 1; i > 0; --i) {
    const auto j = static_cast<size_t>(pick(0, i));
    std::swap(t.sizes[i], t.sizes[j]);
    std::swap(t.strides[i], t.strides[j]);
  }
  return t;
}

struct Image {
  View x, y;
  std::array<int64_t, 2> kernel, strides, dilations;
  std::array<int64_t, 4> pads;
};

// A window over an image; `out`: channels of y, 0 for those of x.
Image some_window(int64_t out, Type type) {
  Image w;
  const int64_t n = pick(1, 2), c = pick(1, 37);
  int64_t in[2], positions[2];
  for (size_t i = 0; i < 2; ++i) {
    w.kernel[i] = pick(1, 4);
    w.strides[i] = pick(1, 2);
    w.dilations[i] = chance(3) ? 2 : 1;
    w.pads[i] = pick(0, 2);
    w.pads[i + 2] = pick(0, 2);
    const int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    // An image without pixels has nothing but its halo.
    const int64_t fewest = std::max<int64_t>(0, reach - w.pads[i] - w.pads[i + 2]);
    in[i] = chance(8) ? fewest : pick(std::max<int64_t>(1, fewest), 12);
    positions[i] = (in[i] + w.pads[i] + w.pads[i + 2] - reach) / w.strides[i] + 1;
  }
  w.x = disturbed(dense(readable(), Type::u8, {n, in[0], in[1], c}, w.pads));
  w.y = disturbed(dense(writable(), type, {n, positions[0], positions[1], out == 0 ? c : out}));
  return w;
}

using Made = std::unique_ptr<Step>;

// Of an output y with so many channels.
EpilogueSpec some_epilogue(const View& y, int64_t out) {
  EpilogueSpec e;
  if (chance(3)) {
    e.residual = disturbed(dense(readable(), Type::u8, {y.sizes[0], y.sizes[1], y.sizes[2], out}));
  }
  const auto channels = static_cast<size_t>(out);
  e.correction.resize(channels);
  fill(e.correction);
  e.multiplier = floats(channels);
  e.bias = floats(channels);
  const ByteGrid grid = some_grid();
  e.floats = y.type == Type::f32;
  e.zero_point = std::abs(grid.zero) % 256;
  e.low = grid.low;
  e.high = grid.high;
  e.real_low = -1;
  e.real_high = 1;
  e.scale = 0.1f;
  e.residual_multiplier = 0.5f;
  e.residual_zero_point = 3;
  e.ops = &some_kernel<FloatOps>("float_steps");
  if (chance(4)) {
    const NamedFunction* const gelu = find_function(*e.ops, "gelu");
    e.function = gelu->function;
    e.curve = gelu->codes;
    e.smooth = gelu->smooth;
  }
  if (chance(e.function == nullptr ? 20 : 2)) e.factors = floats(channels);
  if (chance(e.function == nullptr ? 20 : 2)) e.offsets = std::vector<float>(channels, 0.25f);
  if (chance(e.function == nullptr ? 4 : 20)) e.slopes = floats(channels);
  if (chance(4)) e.gains = floats(channels);
  if (chance(20) != !e.gains.empty()) e.shifts = std::vector<float>(channels, -0.75f);
  if (chance(20)) e.quotient = 2.5f;
  e.divides = chance(20) != (chance(2) || e.residual || !e.slopes.empty() || !e.gains.empty());
  return e;
}

// All but strides and dilations.
ConvViews some_views(const Image& w, const EpilogueSpec& epilogue) {
  ConvViews s{};
  s.x = w.x;
  s.y = w.y;
  s.residual = epilogue.residual;
  s.origin = {-w.pads[0], -w.pads[1]};
  return s;
}

Made some_conv() {
  const auto& ops = some_kernel<GemmOps>("gemm");
  const int64_t groups = chance(3) ? pick(1, 4) : 1, out = groups * pick(1, 20);
  const Type type = chance(4) ? Type::f32 : Type::u8;
  Image w = some_window(out, type);
  const int64_t in = std::max<int64_t>(1, w.x.sizes[3] / groups) % 64 + 1;
  w.x.sizes[3] = in * groups;
  w.x = dense(w.x.block, Type::u8, {w.x.sizes[0] % 4, w.x.sizes[1] % 16, w.x.sizes[2] % 16, in * groups},
              w.pads);
  w.x = disturbed(w.x);
  const bool joined = groups == 1 && w.dilations[1] == 1;
  const GemmWeights shape{
      static_cast<int32_t>(out), static_cast<int32_t>(w.kernel[0]), static_cast<int32_t>(w.kernel[1]),
      static_cast<int32_t>(in),  static_cast<int32_t>(groups),      joined,
      chance(2) ? 127 : 255};
  w.x.high = static_cast<uint8_t>(chance(9) ? 255 : shape.high);
  std::vector<int8_t> weights(static_cast<size_t>(out * w.kernel[0] * w.kernel[1] * in));
  fill(weights);
  auto packed = std::make_shared<std::vector<uint8_t>>(pack_gemm(shape, weights.data(), ops));
  // As a damaged plan file would have it.
  if (chance(3)) (*packed)[random_bits() % std::min<size_t>(packed->size(), 600)] ^= 1u << pick(0, 7);
  if (chance(9)) packed->resize(random_bits() % packed->size());
  ConvLayerSpec layer{&ops, {packed->data(), packed->size(), packed}, some_epilogue(w.y, out)};
  ConvViews s = some_views(w, layer.epilogue);
  s.strides = w.strides;
  s.dilations = w.dilations;
  if (chance(3)) {
    s.low = disturbed(s.x);
    layer.is_wide = chance(20) == 0;
    layer.shift = pick(-1, 8);
    layer.high_correction = layer.epilogue.correction;
  }
  return make_conv({s, std::make_shared<const ConvLayer>(layer)});
}

Made some_winograd() {
  const auto& ops = some_kernel<WinogradOps>("winograd");
  const int64_t out = pick(1, 70), in = 32 * pick(1, 3);
  const Type type = chance(4) ? Type::f32 : Type::u8;
  const int64_t n = pick(1, 2), h = pick(3, 12), width = pick(3, 12);
  Image w;
  for (int64_t& pad : w.pads) pad = pick(0, 2);
  w.x = disturbed(dense(readable(), Type::u8, {n, h, width, in}, w.pads));
  w.y = disturbed(
      dense(writable(), type, {n, h + w.pads[0] + w.pads[2] - 2, width + w.pads[1] + w.pads[3] - 2, out}));
  std::vector<int8_t> weights(static_cast<size_t>(out * 9 * in));
  fill(weights);
  auto packed = std::make_shared<std::vector<uint8_t>>(
      pack_winograd(static_cast<int32_t>(out), static_cast<int32_t>(in), 255, weights.data(), ops));
  if (chance(3)) (*packed)[random_bits() % 64] ^= 1u << pick(0, 7);
  if (chance(9)) packed->resize(random_bits() % packed->size());
  const EpilogueSpec epilogue = some_epilogue(w.y, out);
  ConvViews s = some_views(w, epilogue);
  s.threads = static_cast<int>(pick(1, 5));
  const PackedWeights read{packed->data(), packed->size(), packed};
  return make_winograd({s, std::make_shared<const WinogradLayer>(ops, read, epilogue)});
}

Made some_depthwise() {
  const Type type = chance(4) ? Type::f32 : Type::u8;
  const Image w = some_window(0, type);
  const auto c = static_cast<size_t>(w.x.sizes[3] > 0 && w.x.sizes[3] < 99 ? w.x.sizes[3] : 5);
  std::vector<int8_t> weights(c * static_cast<size_t>(w.kernel[0] * w.kernel[1]));
  fill(weights);
  DepthwiseSpec s{};
  s.x = w.x;
  s.x.high = chance(2) ? 127 : 255;
  s.y = w.y;
  DepthwiseWeights filters{};
  filters.kernel_h = static_cast<int>(w.kernel[0]);
  filters.kernel_w = static_cast<int>(w.kernel[1]);
  filters.channels = static_cast<int>(c);
  filters.high = s.x.high;
  filters.weight = weights.data();
  const EpilogueSpec epilogue = some_epilogue(w.y, static_cast<int64_t>(c));
  s.residual = epilogue.residual;
  for (size_t i = 0; i < 2; ++i) {
    s.strides[i] = static_cast<int>(w.strides[i]);
    s.dilations[i] = static_cast<int>(w.dilations[i]);
    s.pads[i] = static_cast<int>(w.pads[i]);
  }
  if (chance(3)) s.low = disturbed(s.x);
  filters.joins = s.low.has_value();
  const auto& ops = some_kernel<DepthwiseOps>("depthwise");
  const size_t pixels = joined_pixels(ops, s);
  return make_depthwise(std::make_shared<const DepthwiseLayer>(ops, filters, epilogue, pixels), s);
}

Made some_pool() {
  if (chance(4)) {
    const Image f = some_window(0, Type::f32);
    return make_float_max_pool(some_kernel<FloatOps>("float_steps"),
                               {f.x, f.y, f.kernel, f.strides, f.dilations, f.pads});
  }
  const Image w = some_window(0, Type::u8);
  const PoolSpec s{w.x, w.y, w.kernel, w.strides, w.dilations, w.pads};
  const auto& ops = some_kernel<PoolOps>("pool");
  if (chance(2)) return make_max_pool(ops, s);
  return make_mean_pool(ops, s, {chance(2), 0.5f, chance(2) ? 0.3f : 0.5f, 3, some_grid()});
}

Made some_points() {
  const std::vector<int64_t> sizes = some_sizes();
  const View a = disturbed(dense(readable(), Type::u8, sizes)),
             b = disturbed(dense(readable(), Type::u8, sizes));
  const View y = disturbed(dense(writable(), Type::u8, sizes));
  const auto& ops = some_kernel<PointwiseOps>("pointwise");
  const ByteGrid grid = some_grid();
  switch (pick(0, 2)) {
    case 0:
      return make_add(ops,
                      {a, b, y, {3, 0.5f}, {-7, 2.5f}, divisor_of_sum(chance(2) ? 0.3f : 0.5f, grid), grid});
    case 1: return make_rescale(ops, {a, y, {3, 0.5f}, some_grid()});
    default: {
      View table = dense(kArenaBlock, Type::u8, {chance(9) ? 255 : 256});
      table.block = kConstantBlock;
      table.offset = static_cast<size_t>(pick(0, kConstant - (chance(9) ? 100 : 256)));
      return make_table(ops, {a, table, y});
    }
  }
}

Made some_move() {
  const std::vector<int64_t> sizes = some_sizes();
  const Type type = chance(2) ? Type::u8 : chance(2) ? Type::f32 : Type::i64;
  const View x = disturbed(dense(readable(), type, sizes)), y = disturbed(dense(writable(), type, sizes));
  switch (pick(0, 4)) {
    case 0: return make_copy(some_kernel<TransposeOps>("transpose"), {turned(x), y});
    case 1: {
      std::vector<std::vector<int64_t>> indices;
      for (int i = 0; i < y.rank; ++i) {
        indices.emplace_back(static_cast<size_t>(std::clamp<int64_t>(y.sizes[i], 0, 99)));
        for (int64_t& j : indices.back())
          j = pick(0, std::clamp<int64_t>(x.sizes[i], 1, 99) - (chance(40) ? 0 : 1));
      }
      return make_resize({x, y, indices});
    }
    case 2: return make_fill({y, 7});
    case 3: {  // indices are whatever lies there
      const std::vector<int64_t> many = {pick(1, 5), pick(1, 4)}, rows = {pick(0, 9), pick(1, 20)};
      const Type type = chance(2) ? Type::u8 : Type::f32;
      const View index = disturbed(dense(readable(), chance(2) ? Type::i64 : Type::i32, many));
      const bool last = chance(2);
      const int64_t first = last ? rows[0] : many[0];
      const std::vector<int64_t> made = {first, many[last ? 0 : 1], last ? many[1] : rows[1]};
      return make_gather({disturbed(dense(readable(), type, rows)), index,
                          disturbed(dense(writable(), type, made)), last ? 1 : 0});
    }
    default:
      return make_halo({disturbed(dense(writable(), Type::u8, {2, pick(1, 9), pick(1, 9), pick(1, 20)},
                                        {pick(0, 2), pick(0, 2), pick(0, 2), pick(0, 2)})),
                        7});
  }
}

// Numbers and indices are whatever lies there.
Made some_elements() {
  constexpr const char* kNames[] = {"cast", "equal", "less", "mod", "div", "mul", "where", "not", "round"};
  constexpr Type kTypes[] = {Type::u8, Type::b8, Type::i32, Type::i64, Type::f32, Type::f64};
  const std::string name = kNames[pick(0, 8)];
  const Type type = kTypes[pick(0, 5)], made = chance(2) ? type : kTypes[pick(0, 5)];
  const std::vector<int64_t> sizes = some_sizes();
  std::vector<View> xs;
  for (size_t i = 0; i < find_elementwise(name.c_str())->operands + (chance(40) ? 1 : 0); ++i) {
    const bool test = i == 0 && name == "where";
    xs.push_back(disturbed(dense(readable(), test ? Type::b8 : type, sizes)));
  }
  return make_elementwise(some_kernel<ElementwiseOps>("elementwise"),
                          {name, xs, disturbed(dense(writable(), made, sizes))});
}

Made some_line() {
  const std::vector<int64_t> sizes = some_sizes();
  std::vector<int64_t> shorter = sizes;
  const auto axis = static_cast<int>(pick(chance(20) ? -1 : 0, static_cast<int64_t>(sizes.size())));
  const bool within = 0 <= axis && axis < static_cast<int>(sizes.size());
  const Type type = chance(2) ? Type::f32 : chance(2) ? Type::i64 : Type::i32;
  const View x = disturbed(dense(readable(), type, sizes)), y = disturbed(dense(writable(), type, sizes));
  switch (pick(0, 4)) {
    case 4:
      if (within) shorter[static_cast<size_t>(axis)] = 1;
      return make_fold({turned(x), disturbed(dense(writable(), type, shorter)), axis,
                        type == Type::f32 ? FoldKind::prod : static_cast<FoldKind>(pick(0, 3))});
    case 0: return make_cum_sum({turned(x), y, axis, chance(2), chance(2)});
    case 2: {
      const auto terms = static_cast<size_t>(pick(chance(20) ? 0 : 1, 3));
      const int64_t made = pick(0, 9);
      const int64_t size = within ? std::max<int64_t>(sizes[static_cast<size_t>(axis)], 1) : 1;
      if (within) shorter[static_cast<size_t>(axis)] = made;
      std::vector<int64_t> places(static_cast<size_t>(made) * terms);
      for (int64_t& place : places) place = pick(chance(200) ? -1 : 0, size - (chance(200) ? 0 : 1));
      const std::vector<float> weights(places.size(), 0.5f);
      return make_interpolate(
          {turned(x), disturbed(dense(writable(), type, shorter)), axis, places, weights, terms});
    }
    case 1:
      if (within) shorter[static_cast<size_t>(axis)] = 1;
      return make_arg_max(
          some_kernel<TransposeOps>("transpose"),
          {turned(x), disturbed(dense(writable(), Type::i64, shorter)), axis, chance(2), chance(2)});
    default:
      if (within) shorter[static_cast<size_t>(axis)] = pick(0, 9);
      return make_gather_elements({x,
                                   disturbed(dense(readable(), chance(2) ? Type::i64 : Type::i32, shorter)),
                                   disturbed(dense(writable(), type, shorter)), axis});
  }
}

Made some_grid_change() {
  const std::vector<int64_t> sizes = some_sizes();
  const auto& ops = some_kernel<QuantizeOps>("quantize");
  const auto& transpose = some_kernel<TransposeOps>("transpose");
  const View f = disturbed(dense(readable(), Type::f32, sizes)),
             u = disturbed(dense(readable(), Type::u8, sizes));
  if (chance(3)) {
    const View above = disturbed(dense(writable(), Type::u8, sizes));
    return make_split_quantize(
        ops, transpose, {f, above, disturbed(dense(writable(), Type::u8, sizes)), 0.1f, -32768, 32767});
  }
  if (chance(2)) {
    return make_quantize(ops, transpose,
                         {f, disturbed(dense(writable(), Type::u8, sizes)), 0.1f, some_grid()});
  }
  return make_dequantize(ops, transpose,
                         {turned(u), disturbed(dense(writable(), Type::f32, sizes)), 0.1f, 3});
}

RealIn some_real(const std::vector<int64_t>& sizes) {
  return {disturbed(dense(readable(), chance(2) ? Type::u8 : Type::f32, sizes)), 3, 0.1f};
}

Made some_floats() {
  const std::vector<int64_t> sizes = some_sizes();
  const auto& ops = some_kernel<FloatOps>("float_steps");
  const auto& turn = some_kernel<TransposeOps>("transpose");
  const RealIn a = some_real(sizes), b = some_real(sizes);
  const RealOut y{disturbed(dense(writable(), chance(2) ? Type::u8 : Type::f32, sizes)), 0.1f, some_grid()};
  switch (pick(0, 6)) {
    case 0: return make_function(ops, turn, {a, y, chance(9) ? "no function" : "gelu"});
    case 1: return make_binary(ops, turn, {a, b, y, static_cast<BinaryKind>(pick(0, kBinaryKinds - 1))});
    case 2: return make_softmax(ops, turn, {a, chance(2) ? std::optional(b) : std::nullopt, y, 0.5f});
    case 3: return make_clip(ops, turn, {a, y, -1, 2});
    case 5: {
      const auto& fake_quantize = some_kernel<FakeQuantizeOps>("fake_quantize");
      return make_fake_quantize(ops, turn, fake_quantize, {a, y, chance(9) ? 0 : 0.001f, -32768, 32767});
    }
    case 4: {
      std::vector<int64_t> kept = sizes;
      kept.resize(static_cast<size_t>(pick(0, static_cast<int64_t>(sizes.size()))));
      const View sums = disturbed(dense(writable(), chance(2) ? Type::u8 : Type::f32, kept));
      constexpr const char* kNames[] = {"sum", "mean", "max", "min", "no function"};
      return make_reduce(ops, some_kernel<ReduceOps>("reduce"), turn,
                         {a, {sums, 0.1f, some_grid()}, kNames[pick(0, 4)]});
    }
    default: {
      View weight = dense(kArenaBlock, Type::f32, {sizes.empty() ? 1 : sizes.back() + (chance(9) ? 1 : 0)});
      const RealOut codes{disturbed(dense(writable(), Type::u8, sizes)), 0.1f, some_grid()};
      return make_layer_norm(ops, turn,
                             {a, chance(2) ? std::optional(b) : std::nullopt, weight, weight, y,
                              chance(3) ? std::optional(codes) : std::nullopt,
                              chance(3) ? std::optional(weight) : std::nullopt, 1e-5f});
    }
  }
}

Made some_matmul() {
  const int64_t n = pick(1, 3), i = pick(1, 30), k = pick(1, 70), j = pick(1, 40);
  View a = disturbed(dense(readable(), Type::u8, {n, i, k})),
       b = disturbed(dense(readable(), Type::u8, {n, k, j}));
  if (chance(2)) {  // as it lies when a graph transposes it first
    b = dense(readable(), Type::u8, {n, j, k});
    std::swap(b.sizes[1], b.sizes[2]);
    std::swap(b.strides[1], b.strides[2]);
    b = disturbed(b);
  }
  if (chance(4)) b.strides[0] = 0;
  const View y = disturbed(dense(writable(), chance(3) ? Type::f32 : Type::u8, {n, i, j}));
  EpilogueSpec e;
  e.floats = y.type == Type::f32;
  e.multiplier = {0.01f};
  e.bias = {0};
  e.correction = {0};
  e.zero_point = static_cast<int32_t>(pick(0, 255));
  e.real_low = -1;
  e.real_high = 1;
  return make_matmul(some_kernel<MatMulOps>("matmul"), {a, b, y, {128, 3}, settle_product(e)});
}

struct Blocks {
  std::vector<uint8_t> constant = std::vector<uint8_t>(kConstant), input = std::vector<uint8_t>(kInput),
                       output = std::vector<uint8_t>(kOutput);
};

// Returns whether the step was accepted; then it has run, in one piece or in several.
bool accepted(const std::function<Made()>& make, const Blocks& blocks, ThreadPool& thread_pool) {
  Program program;
  program.arena(kArena);
  program.constant(blocks.constant.data(), kConstant);
  program.input(kInput);
  program.output(kOutput);
  try {
    program.add(make());
  } catch (const std::invalid_argument&) {
    return false;
  }
  Context context(program, thread_pool);
  context.place(kInputBlock, blocks.input.data(), kInput);
  context.place(kOutputBlock, blocks.output.data(), kOutput);
  context.run(0, 1, nullptr);
  return true;
}

int main_(int rounds) {
  const std::map<std::string, std::function<Made()>> kinds = {
      {"conv", some_conv},          {"winograd", some_winograd}, {"depthwise", some_depthwise},
      {"pool", some_pool},          {"points", some_points},     {"move", some_move},
      {"elements", some_elements},  {"line", some_line},         {"grid", some_grid_change},
      {"float_steps", some_floats}, {"matmul", some_matmul}};
  Blocks blocks;
  fill(blocks.constant);
  fill(blocks.input);
  ThreadPool alone(1, false), two(2, true);
  bool both = true;
  for (const auto& [kind, make] : kinds) {
    int ran = 0;
    for (int i = 0; i < rounds; ++i) ran += accepted(make, blocks, i % 2 == 0 ? alone : two);
    std::printf("%-10s %d of %d accepted\n", kind.c_str(), ran, rounds);
    both = both && ran > rounds / 10 && ran < rounds;
  }
  if (!both) std::fprintf(stderr, "some kind was never refused, or hardly ever accepted\n");
  return both ? 0 : 1;
}

}  // namespace
}  // namespace intact

int main(int argc, char** argv) { return intact::main_(argc > 1 ? std::atoi(argv[1]) : 20000); }
