// Kernels on pixels of codes.
#include "checks.h"

namespace intact {
namespace {

struct Convolution {
  DepthwiseWeights weights{};
  DepthwiseRow row{};
  std::vector<int8_t> w;
  std::vector<int32_t> correction;
  Floats multiplier, bias;
  Bytes x, residual;

  Convolution() {
    const int h = pick(1, 4) == 1 ? 3 : pick(1, 5), k = h == 3 ? 3 : pick(1, 5), channels = pick(1, 100);
    const int high = pick(0, 1) == 0 ? 127 : 255, stride = pick(1, 3), pixels = pick(1, 9);
    const size_t columns = static_cast<size_t>(k + (pixels - 1) * stride), n = static_cast<size_t>(channels);
    const size_t image = columns * static_cast<size_t>(h) * n;
    x = some_bytes(2 * image + 64, high);
    residual = some_bytes(static_cast<size_t>(pixels) * n + 64);
    for (int i = 0; i < h * k * channels; ++i) w.push_back(static_cast<int8_t>(random_bits()));
    for (int c = 0; c < channels; ++c) {
      correction.push_back(pick(-5000, 5000));
      multiplier.push_back(static_cast<float>(pick(-1000, 1000)) * 1e-5f);
      bias.push_back(static_cast<float>(pick(0, 2000)) * 0.1f);
      if (pick(1, 8) == 1) multiplier.back() = bias.back() = -0.0f;  // a real of -0
    }
    weights = {h, k, channels, high, w.data(), correction.data(), multiplier.data(), bias.data()};
    weights.joins = row.joins = pick(1, 3) == 1;
    row.apart = static_cast<ptrdiff_t>(image);
    row.kernel_h = h, row.kernel_w = k, row.channels = channels, row.high = high;
    row.x = x.data(), row.x_column = channels, row.x_row = static_cast<ptrdiff_t>(columns) * channels;
    row.x_pixel = ptrdiff_t{stride} * channels, row.pixels = static_cast<size_t>(pixels);
    if (pick(0, 1) == 0) row.residual = residual.data(), row.residual_pixel = channels;
    Epilogue& e = row.epilogue;
    e.floats = pick(0, 3) == 0, e.bounded = pick(0, 1) == 0, e.has_residual = row.residual != nullptr;
    e.residual_zero_point = pick(0, 255), e.residual_multiplier = 0.37f;
    e.zero_point = pick(0, 255), e.low = pick(0, 255), e.high = pick(e.low, 255);
    e.real_low = pick(0, 1) == 0 ? -20.0f : 0.0f, e.real_high = 90;
    row.y_pixel = channels * (e.floats ? 4 : 1);
  }

  Bytes run(const DepthwiseOps& ops) const {
    Bytes packed(ops.packed_bytes(weights) + 64), y(row.pixels * static_cast<size_t>(row.y_pixel) + 9, 7);
    DepthwiseRow d = row;
    uint8_t* aligned = packed.data();
    while (reinterpret_cast<uintptr_t>(aligned) % 64 != 0) ++aligned;
    ops.pack(weights, aligned);
    d.packed = aligned, d.y = y.data(),
    d.end = (static_cast<size_t>(row.channels) + ops.block - 1) / ops.block;
    ops.run(d);
    return y;
  }
};

}  // namespace

bool check(const PoolOps& ops) {
  const size_t n = some_size(), taps = static_cast<size_t>(pick(0, 5) == 0 ? pick(1, 700) : pick(1, 9)),
               pixels = 3;
  const Bytes x = some_bytes(pixels * n + taps * n);
  std::vector<ptrdiff_t> offsets(taps);
  for (size_t t = 0; t < taps; ++t) offsets[t] = static_cast<ptrdiff_t>(t * n);
  const PoolWindow window = {x.data(), offsets.data(), taps, n};
  PoolMean mean = {pick(-9, 255), static_cast<float>(pick(-999, 9999)) / (1024 * static_cast<float>(taps)),
                   some_grid()};
  if (pick(0, 1) == 0) {
    mean.divides = true;
    mean.count = static_cast<float>(taps);
    mean.scale = static_cast<float>(pick(1, 999)) / 1024;
  }
  const auto pitch = static_cast<ptrdiff_t>(n);
  return differs(ops, pool_ref, Bytes(pixels * n + 9, 7),
                 [&](const auto& o, uint8_t* y) { o.max(window, pixels, pitch, y, pitch); }) ||
         differs(ops, pool_ref, Bytes(n + 9, 7), [&](const auto& o, uint8_t* y) { o.mean(window, mean, y); });
}

bool check(const TransposeOps& ops) {
  const auto rows = static_cast<size_t>(pick(0, 4) == 0 ? 3 : pick(1, 40)),
             columns = static_cast<size_t>(pick(1, 40));
  const size_t more = pick(0, 1) == 0 ? 0 : 8;
  const Bytes x = some_bytes(rows * (4 * columns + more));
  const auto turns = [&](auto how, size_t unit) {
    const auto x_pitch = static_cast<ptrdiff_t>(columns * unit + more);
    const auto y_pitch = static_cast<ptrdiff_t>(rows * unit + more);
    return differs(
        ops, transpose_ref, Bytes(columns * static_cast<size_t>(y_pitch) + 9, 7),
        [&](const auto& o, uint8_t* y) { (o.*how)(x.data(), x_pitch, rows, columns, y, y_pitch); });
  };
  return turns(&TransposeOps::bytes, 1) || turns(&TransposeOps::words, 4);
}

bool check(const DepthwiseOps& ops) {
  const Convolution c;
  return c.run(ops) != c.run(depthwise_ref);
}

// Each of the four steps, on what the plain kernel made of the one before.
bool check(const WinogradOps& ops) {
  const int channels = kWinogradChannels * pick(1, 2), tiles = pick(1, 9);
  const int width = ops.gemm->unit * pick(1, ops.widest), row = pick(0, kTileIn - 1);
  const size_t in = static_cast<size_t>(channels), out = static_cast<size_t>(width),
               all = static_cast<size_t>(tiles);
  const Bytes image = some_bytes(kPoints * in), taps = some_bytes(9 * in * out);
  WinogradPixels pixels{};
  for (int i = 0; i < kTileIn; ++i) {
    pixels.rows[i] = image.data() + static_cast<ptrdiff_t>(i) * kTileIn * channels;
    pixels.columns[i] = ptrdiff_t{i} * channels;
  }
  pixels.channels = channels;
  const auto spread = [&](const auto& o, int16_t* to) { o.transform_input(pixels, to, channels); };
  const WinogradTaps some = {reinterpret_cast<const int8_t*>(taps.data()), channels, width, row};
  const auto transform = [&](const auto& o, int16_t* to) { o.transform_weights(some, to); };
  std::vector<int16_t> input(all * in), weights(kTileIn * in * out);
  for (int16_t& v : input) v = static_cast<int16_t>(pick(-17340, 17340));
  winograd_ref.transform_weights(some, weights.data());
  // Aligned to 64, as the contract has it.
  struct alignas(64) Line {
    int32_t sums[16];
    bool operator==(const Line& l) const { return std::memcmp(sums, l.sums, sizeof sums) == 0; }
  };
  const auto multiply = [&](const auto& o, Line* to) {
    o.multiply({input.data(), weights.data(), channels, tiles, width, to->sums});
  };
  std::vector<int32_t> sums(kPoints * out), correction(out);
  for (int32_t& v : sums) v = static_cast<int32_t>(random_bits());
  for (int32_t& v : correction) v = pick(-9999, 9999);
  const auto gather = [&](const auto& o, int32_t* to) {
    o.transform_output(sums.data(), width, correction.data(), width, to);
  };
  return differs(ops, winograd_ref, std::vector<int16_t>(kPoints * in), spread) ||
         differs(ops, winograd_ref, std::vector<int16_t>(kTileIn * in * out), transform) ||
         differs(ops, winograd_ref, std::vector<Line>((all * out + 15) / 16), multiply) ||
         differs(ops, winograd_ref, std::vector<int32_t>(kTileOutputs * out), gather);
}

bool check(const DynamicDepthwiseOps& ops) {
  const auto pixels = static_cast<size_t>(pick(1, 20)), taps = static_cast<size_t>(pick(1, 9)),
             n = some_size() + 1;
  const Bytes x = some_bytes(pixels * taps * n);
  std::vector<const uint8_t*> from(pixels * taps);
  for (size_t i = 0; i < from.size(); ++i) from[i] = x.data() + i * n;
  std::vector<int32_t> weights(taps * n), starts(n);
  for (int32_t& weight : weights) weight = pick(-255, 255) & 0xffff;
  for (int32_t& start : starts) start = pick(-100000, 100000);
  const Floats scales = some_floats(n, false), bias = some_floats(n, false);
  const bool has_bias = pick(0, 1) == 0, is_signed = pick(0, 1) == 0;
  return differs(ops, dynamic_depthwise_ref, Floats(pixels * n + 9, 7), [&](const auto& o, float* y) {
    std::vector<float*> to(pixels);
    for (size_t p = 0; p < pixels; ++p) to[p] = y + p * n;
    const DynamicDepthwise d{from.data(),    pixels,        taps,          n,
                             weights.data(), starts.data(), scales.data(), has_bias ? bias.data() : nullptr,
                             to.data()};
    is_signed ? o.run_s8(d) : o.run_u8(d);
  });
}

}  // namespace intact
