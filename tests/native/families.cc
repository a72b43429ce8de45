// Every kernel of this build that this machine has, but those of gemm and matmul, against the plain one of
// its family: for instruction sets that run elsewhere, under an emulator. Sizes lie around every number of
// lanes.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "base/divisor.h"
#include "base/half.h"
#include "driver.h"
#include "kernels/registry.h"

namespace intact {
namespace {

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

size_t some_size() { return static_cast<size_t>(pick(0, 3) == 0 ? pick(0, 300) : pick(0, 40)); }

// Returns a float near steps of 1/4, among them ties and both zeros; now and then one far out, or a NaN.
float some_float(bool wild) {
  constexpr float kWild[] = {kInf, -kInf, kNan, 3e38f, -3e38f, 1e-40f, -1e-40f, 0.0f, -0.0f, 1e9f, -1e9f};
  if (wild && pick(0, 9) == 0) return kWild[pick(0, 10)];
  const float tie = static_cast<float>(pick(-1200, 1200)) / 8;
  return pick(0, 1) == 0 ? tie : tie * static_cast<float>(pick(1, 99999)) * 1e-5f;
}

Floats some_floats(size_t n, bool wild) {
  Floats x(n);
  for (float& v : x) v = some_float(wild);
  return x;
}

Bytes some_bytes(size_t n, int high = 255) {
  Bytes x(n);
  for (uint8_t& v : x) v = static_cast<uint8_t>(pick(0, high));
  return x;
}

// The same bits; of a NaN: that it is one.
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0 && (a[i] == a[i] || b[i] == b[i])) return false;
  }
  return true;
}

ByteGrid some_grid() {
  const int low = pick(0, 255);
  return {pick(-300, 300), low, pick(low, 255)};
}

// A product where one gives a division's codes, and now and then the division where one would.
Divisor some_divisor(const ByteGrid& grid) {
  const float scale = pick(0, 2) == 0 ? 0.25f : std::ldexp(static_cast<float>(pick(1, 999)), pick(-12, -8));
  Divisor divisor = divisor_of(scale, grid.low - grid.zero, grid.high - grid.zero);
  if (pick(0, 4) == 0) divisor.exact = false;
  return divisor;
}

struct SomeGrid {
  Floats scale, low, high;
  Grid grid;
  explicit SomeGrid(size_t n) : scale(n + 1), low(n + 1), high(n + 1) {
    for (size_t i = 0; i <= n; ++i) {
      scale[i] = pick(0, 2) == 0 ? 0.25f : std::ldexp(static_cast<float>(pick(1, 999)), pick(-12, -8));
      low[i] = static_cast<float>(pick(-255, 0));
      high[i] = low[i] + static_cast<float>(pick(1, 255));
    }
    if (pick(0, 9) == 0) scale[0] = 1e-36f;
    grid = {scale.data(), low.data(), high.data(), pick(0, 1) == 0};
  }
};

// `call` on fresh copies of `y`, by the kernel and by the plain one.
template <class Ops, class Y, class Call>
bool differs(const Ops& ops, const Ops& plain, const std::vector<Y>& y, const Call& call) {
  std::vector<Y> got = y, want = y;
  call(ops, got.data());
  call(plain, want.data());
  return !same(got, want);
}

bool check(const QuantizeOps& ops) {
  const size_t n = some_size();
  const SomeGrid g(n);
  const Codes codes = {pick(0, 1) == 0 ? -128 : 0, pick(0, 1) == 0};
  const Floats x = some_floats(n, true);
  const Bytes q = some_bytes(n + 1);
  const auto to = [&](const auto& o, uint8_t* y) { o.quantize(x.data(), n, g.grid, codes, y); };
  const auto from = [&](const auto& o, float* y) { o.dequantize(q.data() + 1, n, g.grid, codes, y); };
  const float low = static_cast<float>(pick(-65535, 0)), high = low + 65535;
  const Grid wide = {g.scale.data(), &low, &high, true};
  const auto split = [&](const auto& o, uint8_t* y) { o.split(x.data(), n, wide, y, y + n + 1); };
  return differs(ops, quantize_ref, Bytes(n + 9, 7), to) ||
         differs(ops, quantize_ref, Bytes(2 * n + 9, 7), split) ||
         differs(ops, quantize_ref, Floats(n + 9, 7), from);
}

bool check(const FakeQuantizeOps& ops) {
  const size_t n = some_size();
  const SomeGrid g(n);
  const Floats x = some_floats(n, true);
  return differs(ops, fake_quantize_ref, Floats(n + 9, 7),
                 [&](const auto& o, float* y) { o.run(x.data(), n, g.grid, y); });
}

bool check(const FakeQuantizeGradOps& ops) {
  const size_t n = some_size();
  const SomeGrid g(n);
  const Floats x = some_floats(n, true), grad = some_floats(n, true);
  const Floats made = some_floats(n, true);
  const auto learn = [&](const auto& o, float* y) {
    const RangeSums s = o.learn(grad.data(), x.data(), made.data(), n, g.low[0], g.high[0], y + 3);
    y[0] = s.between, y[1] = s.beyond, y[2] = s.shift;
  };
  return differs(ops, fake_quantize_grad_ref, Floats(n + 9, 7), learn) ||
         differs(ops, fake_quantize_grad_ref, Floats(n + 9, 7),
                 [&](const auto& o, float* y) { o.run(grad.data(), x.data(), n, g.grid, y); });
}

bool check(const ConvertOps& ops) {
  const size_t n = some_size();
  std::vector<uint16_t> halves(n);
  std::vector<double> doubles(n);
  Floats x = some_floats(n, true);
  for (size_t i = 0; i < n; ++i) {
    halves[i] = static_cast<uint16_t>(random_bits());
    if (pick(0, 1) == 0) x[i] = std::bit_cast<float>(static_cast<uint32_t>(random_bits()));
    doubles[i] = static_cast<double>(some_float(true)) * (1 + 1e-9 * pick(0, 999));
  }
  const auto reads = [&](auto from, const auto& source) {
    return differs(ops, convert_ref, Floats(n + 9, 7),
                   [&](const auto& o, float* y) { (o.*from)(source.data(), n, y); });
  };
  const auto writes = [&](auto to, auto y) {
    y.assign(n + 9, 7);
    return differs(ops, convert_ref, y, [&](const auto& o, auto* z) { (o.*to)(x.data(), n, z); });
  };
  using O = ConvertOps;
  const bool narrow =
      reads(&O::from_f16, halves) || reads(&O::from_bf16, halves) || reads(&O::from_f64, doubles);
  // Which NaN a NaN becomes is left open, and as integers these have no other test for one.
  for (float& v : x) v = v == v ? v : 1.0f;
  return narrow || writes(&O::to_f16, halves) || writes(&O::to_bf16, halves) || writes(&O::to_f64, doubles);
}

bool check(const HistogramOps& ops) {
  const size_t n = some_size();
  const Floats x = some_floats(n, pick(0, 3) == 0);
  const Pow2Bins pow2 = {0.5f, 4.0f, static_cast<uint32_t>(pick(1, 300))};
  const FixedBins fixed = {0.375f, static_cast<uint32_t>(pick(1, 300))};
  const auto counts = [&](const auto& o, uint32_t* slot) {
    ValueRange range = {kInf, -kInf, 0};
    o.pow2(x.data(), n, pow2, slot, range);
    slot[n] = std::bit_cast<uint32_t>(range.min + 0.0f);
    slot[n + 1] = std::bit_cast<uint32_t>(range.max + 0.0f);
    slot[n + 2] = static_cast<uint32_t>(range.nonfinite);
  };
  if (differs(ops, histogram_ref, std::vector<uint32_t>(n + 9, 7), counts)) return true;
  return differs(ops, histogram_ref, std::vector<uint32_t>(n + 9, 7),
                 [&](const auto& o, uint32_t* slot) { o.fixed(x.data(), n, fixed, slot); });
}

bool check(const ReduceOps& ops) {
  const size_t n = some_size();
  const Floats x = some_floats(n, pick(0, 3) == 0), most = some_floats(n + 9, true);
  const auto rows = [&](const auto& o, float* y) {
    const MinMax ends = o.minmax(x.data(), n);
    y[0] = o.absmax(x.data(), n);
    y[1] = ends.min + 0.0f;
    y[2] = ends.max + 0.0f;
  };
  const auto columns = [&](const auto& o, float* y) {
    o.minmax_each(x.data(), n, y, y + n + 9);
    for (size_t i = 0; i < 2 * (n + 9); ++i) y[i] = y[i] + 0.0f;
  };
  Floats running = most, both = most;
  for (float& v : running) v = std::fabs(v);
  both.insert(both.end(), most.begin(), most.end());
  return differs(ops, reduce_ref, Floats(3), rows) || differs(ops, reduce_ref, both, columns) ||
         differs(ops, reduce_ref, running, [&](const auto& o, float* y) { o.absmax_each(x.data(), n, y); });
}

bool check(const MomentsOps& ops) {
  using Doubles = std::vector<double>;
  const size_t rows = some_size(), size = static_cast<size_t>(pick(1, 40));
  const size_t columns = size + static_cast<size_t>(pick(0, 5));
  const size_t stride = (size + kMomentsStep - 1) / kMomentsStep * kMomentsStep;
  const Floats x = some_floats(rows * columns, false);
  const auto widen = [&](const auto& o, double* y) {
    o.widen(x.data(), rows, columns, size, stride, y + stride, y);
  };
  Doubles wide(stride + rows * stride);
  widen(moments_ref, wide.data());
  const auto products = [&](const auto& o, double* y) {
    o.add_products(wide.data() + stride, rows, size, stride, y);
    for (size_t i = 0; i < stride * stride; ++i) {
      const size_t row = i / stride, column = i % stride;
      if (column < row || column >= size) y[i] = 0;  // these are left open
    }
  };
  return differs(ops, moments_ref, Doubles(stride + rows * stride), widen) ||
         differs(ops, moments_ref, Doubles(stride * stride, 0.25), products);
}

bool check(const PointwiseOps& ops) {
  const size_t n = some_size();
  const Bytes a = some_bytes(n), b = some_bytes(n), table = some_bytes(256);
  const auto operand = [] { return Operand{pick(-300, 300), static_cast<float>(pick(-4000, 4000)) / 1024}; };
  const Operand from_a = operand(), from_b = operand();
  const ByteGrid grid = some_grid();
  const Divisor divisor = some_divisor(grid);
  const auto add = [&](const auto& o, uint8_t* y) {
    o.add(a.data(), from_a, b.data(), from_b, n, divisor, grid, y);
  };
  const auto rescale = [&](const auto& o, uint8_t* y) { o.rescale(a.data(), from_a, n, grid, y); };
  const auto lookup = [&](const auto& o, uint8_t* y) { o.lookup(a.data(), table.data(), n, y); };
  const Bytes y(n + 9, 7);
  return differs(ops, pointwise_ref, y, add) || differs(ops, pointwise_ref, y, rescale) ||
         differs(ops, pointwise_ref, y, lookup);
}

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

bool check_rows(const FloatOps& ops, size_t n) {
  const Floats x = some_floats(n, pick(0, 3) == 0), mask = some_floats(n, false);
  const bool masked = pick(0, 1) == 0;
  const auto copy = [&](float* y) { std::copy(x.begin(), x.end(), y); };
  const Floats y(n + 9, 7);
  return differs(ops, float_steps_ref, y, [&](const auto& o, float* to) { to[n] = o.sum(x.data(), n); }) ||
         differs(ops, float_steps_ref, y,
                 [&](const auto& o, float* to) {
                   copy(to);
                   const float gain = o.softmax(to, n, 0.37f, masked ? mask.data() : nullptr);
                   for (size_t i = 0; i < n; ++i)
                     to[i] = to[i] * gain;  // where one is no number, all are none
                 }) ||
         differs(ops, float_steps_ref, y, [&](const auto& o, float* to) {
           copy(to);
           o.layer_norm(to, n, mask.data(), x.data(), mask.data(), 1e-5f);
         });
}

// Short rows side by side: of a block every kernel makes what the plain one makes of each row.
bool check_columns(const FloatOps& ops, size_t rows) {
  const auto n = static_cast<size_t>(pick(1, 40));
  const Floats x = some_floats(n * rows, pick(0, 3) == 0), other = some_floats(n * rows + n, false);
  const float* const second = pick(0, 1) == 0 ? other.data() : nullptr;
  // Compares `columns` on the block with `row`, which returns a factor, on its rows.
  const auto differ = [&](const auto& columns, const auto& row) {
    Floats got = x, want = x, values(n), beside(n);
    columns(got.data());
    for (size_t i = 0; i < rows; ++i) {
      for (size_t k = 0; k < n; ++k) {
        values[k] = x[k * rows + i];
        if (second != nullptr) beside[k] = second[k * rows + i];
      }
      const float factor = row(values.data(), second == nullptr ? nullptr : beside.data());
      for (size_t k = 0; k < n; ++k) want[k * rows + i] = values[k] * factor;
    }
    return !same(got, want);
  };
  const float* const weight = other.data();
  return differ(
             [&](float* block) { ops.softmax_columns(block, n, rows, 0.37f, second); },
             [&](float* row, const float* mask) { return float_steps_ref.softmax(row, n, 0.37f, mask); }) ||
         differ([&](float* block) { ops.layer_norm_columns(block, n, rows, second, weight, weight, 1e-5f); },
                [&](float* row, const float* residual) {
                  float_steps_ref.layer_norm(row, n, residual, weight, weight, 1e-5f);
                  return 1.0f;
                });
}

// Rows of states, in place.
bool check_cells(const FloatOps& ops, size_t n) {
  const Floats gates = some_floats(4 * n, false), state = some_floats(2 * n, false);
  const auto changes = [&](const auto& body) {
    return differs(ops, float_steps_ref, Floats(2 * n + 9, 7), [&](const auto& o, float* y) {
      std::copy(state.begin(), state.end(), y);
      body(o, y);
    });
  };
  const float* const start = pick(0, 1) == 0 ? state.data() : nullptr;
  return changes([&](const auto& o, float* y) { o.lstm(gates.data(), n, y, y + n); }) ||
         changes([&](const auto& o, float* y) { o.reset(gates.data(), state.data(), n, y); }) ||
         changes([&](const auto& o, float* y) { o.gru(gates.data(), gates.data() + n, start, n, y); });
}

bool check_codes(const FloatOps& ops, size_t n) {
  const Floats x = some_floats(n, true);
  const Bytes q = some_bytes(n);
  const ByteGrid grid = some_grid();
  const size_t pitch = (n + kScorePitch) / kScorePitch * kScorePitch;
  Floats scores = some_floats(2 * pitch, false);
  return differs(ops, float_steps_ref, Bytes(n + 9, 7),
                 [&](const auto& o, uint8_t* y) { o.quantize(x.data(), n, 1.5f, 0.25f, grid, y); }) ||
         differs(ops, float_steps_ref, Bytes(n + 9, 7),
                 [&](const auto& o, uint8_t* y) {
                   o.mul_codes(q.data(), 100, 0.3f, x.data(), n, 0.25f, grid, y);
                 }) ||
         differs(ops, float_steps_ref, Floats(n + 9, 7),
                 [&](const auto& o, float* y) { o.dequantize(q.data(), n, 100, 0.3f, y); }) ||
         differs(ops, float_steps_ref, Bytes(2 * n + 9, 7), [&](const auto& o, uint8_t* y) {
           Floats rows = scores;
           o.softmax_codes(rows.data(), 2, pitch, n, 1.0f / 256, {0, 0, 255}, y);
         });
}

bool check(const FloatOps& ops) {
  const size_t n = some_size();
  const Floats a = some_floats(n, true), b = some_floats(n, true), y(n + 9, 7);
  for (size_t i = 0; ops.functions[i].name != nullptr; ++i) {
    const auto map = [&](const auto& o, float* to) { o.functions[i].function(a.data(), to, n); };
    if (differs(ops, float_steps_ref, y, map)) return true;
  }
  const CurveCodes codes{-1.25f, 0.5f, 0.125f, some_grid()};
  for (size_t i = 0; ops.functions[i].name != nullptr; ++i) {
    const auto curve = [&](const auto& o, uint8_t* to) { o.functions[i].codes(a.data(), n, codes, to); };
    if (differs(ops, float_steps_ref, Bytes(n + 9, 7), curve)) return true;
  }
  for (size_t kind = 0; kind < kBinaryKinds; ++kind) {
    const auto a_step = static_cast<size_t>(pick(0, 1)), b_step = static_cast<size_t>(pick(0, 1));
    const auto combine = [&](const auto& o, float* to) {
      o.binary[kind](a.data(), a_step, b.data(), b_step, n, to);
    };
    if (differs(ops, float_steps_ref, y, combine)) return true;
  }
  const auto clip = [&](const auto& o, float* to) { o.clip(a.data(), n, -1.5f, 30.0f, to); };
  return differs(ops, float_steps_ref, y, clip) || check_rows(ops, n) || check_cells(ops, n) ||
         check_codes(ops, n) || check_columns(ops, n);
}

// Products of windows, convolutions of each channel by itself, and filters; sums begin anew, or go on.
bool check(const FloatGemmOps& ops) {
  const size_t rows = static_cast<size_t>(pick(0, 30)), columns = static_cast<size_t>(pick(1, 150));
  const size_t runs = static_cast<size_t>(pick(1, 3)), length = static_cast<size_t>(pick(0, 9));
  const size_t k = runs * length, room = 3 * 40;
  const bool across = pick(0, 1) == 0, more = pick(0, 2) == 0, wild = pick(0, 3) == 0;
  const bool begins = pick(0, 1) == 0;
  const Floats a = some_floats(rows * std::max(room, columns) + room, wild),
               b = some_floats(k * columns, wild);
  const Floats start = some_floats(columns, wild), w = some_floats(runs * columns, wild);
  const ptrdiff_t offsets[] = {3, 0, 41}, step = pick(1, 4);
  std::vector<const float*> from(rows), pixels(rows);
  for (size_t r = 0; r < rows; ++r) from[r] = a.data() + r * room;
  const auto multiply = [&](const auto& o, float* y) {
    Floats packed((columns + o.panel - 1) / o.panel * o.panel * k);
    o.pack(b.data(), across ? static_cast<ptrdiff_t>(columns) : 1, across ? 1 : static_cast<ptrdiff_t>(k), k,
           columns, packed.data());
    std::vector<float*> to(rows);
    for (size_t r = 0; r < rows; ++r) to[r] = y + r * (columns + 1);
    o.multiply({from.data(), offsets, runs, length, step, packed.data(), k * o.panel,
                begins ? start.data() : nullptr, more, to.data(), rows, columns});
  };
  const auto depthwise = [&](const auto& o, float* y) {
    std::vector<float*> to(rows);
    for (size_t r = 0; r < rows; ++r) to[r] = y + r * (columns + 1);
    o.depthwise({pixels.data(), offsets, runs, w.data(), start.data(), to.data(), rows, columns});
  };
  const auto filter = [&](const auto& o, float* y) {
    if (rows > 0) o.filter({a.data(), offsets, runs, w.data(), columns, start[0], y, rows * columns});
  };
  const Floats y = some_floats(rows * (columns + 1) + 9, false), x = some_floats(rows + columns + 50, wild);
  for (size_t r = 0; r < rows; ++r) pixels[r] = x.data() + r;
  return differs(ops, float_gemm_ref, y, multiply) || differs(ops, float_gemm_ref, y, depthwise) ||
         differs(ops, float_gemm_ref, y, filter);
}

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

template <class T>
Bytes bytes_of_values(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of_bytes(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// n elements: of integers small ones, some equal, and both ends; of floats as some_float has them.
Bytes some_elements(Type type, size_t n) {
  if (type == Type::b8) return some_bytes(n, 1);
  if (type == Type::f32) return bytes_of_values(some_floats(n, true));
  if (type == Type::f64) {
    std::vector<double> x(n);
    for (double& v : x) v = static_cast<double>(some_float(true)) * (1 + 1e-9 * pick(0, 999));
    return bytes_of_values(x);
  }
  Bytes x = some_bytes(n * bytes_of(type));
  if (type == Type::f16) return x;
  for (size_t at = 0; at < x.size(); at += bytes_of(type)) {
    const int kind = pick(0, 5), sign = pick(0, 1) == 0 ? 0 : 255;
    if (kind == 0) continue;  // any bits
    for (size_t b = 0; b < bytes_of(type); ++b) x[at + b] = static_cast<uint8_t>(sign);
    if (kind < 4) x[at] = static_cast<uint8_t>(sign ^ pick(0, 3));
    if (kind == 4) x[at + bytes_of(type) - 1] ^= 0x80;  // an end
  }
  return x;
}

bool same_elements(Type type, const Bytes& a, const Bytes& b) {
  if (type == Type::f32) return same(values_of_bytes<float>(a), values_of_bytes<float>(b));
  if (type == Type::f64) return same(values_of_bytes<double>(a), values_of_bytes<double>(b));
  return a == b;
}

// Every operation on elements of some type, with operands that move or do not, to every type that it makes.
bool check(const ElementwiseOps& ops) {
  constexpr auto kLast = static_cast<int>(Type::f64);
  for (int i = 0; i <= static_cast<int>(ElementwiseOperation::logical_xor); ++i) {
    const auto operation = static_cast<ElementwiseOperation>(i);
    const auto type = static_cast<Type>(pick(0, kLast));
    const auto moves = static_cast<unsigned>(pick(0, 7));
    const size_t n = some_size();
    const bool chooses = operation == ElementwiseOperation::where;
    Bytes xs[3];
    for (int v = 0; v < 3; ++v) {
      xs[v] = some_elements(chooses && v == 0 ? Type::b8 : type, n + 1);
    }
    for (int made = 0; made <= kLast; ++made) {
      const auto to = static_cast<Type>(made);
      const ElementwiseRow row = ops.find(operation, type, to, moves);
      const ElementwiseRow plain = elementwise_ref.find(operation, type, to, moves);
      if ((row == nullptr) != (plain == nullptr)) return true;
      if (plain == nullptr) continue;
      // Which half a NaN becomes is left open.
      if (to == Type::f16 && type == Type::f32) xs[0] = bytes_of_values(some_floats(n + 1, false));
      const void* const from[] = {xs[0].data(), xs[1].data(), xs[2].data()};
      Bytes got((n + 9) * bytes_of(to), 7), want = got;
      row(from, n, got.data());
      plain(from, n, want.data());
      if (!same_elements(to, got, want)) return true;
    }
  }
  return false;
}

// The sides of a product, laid out as a kernel wants them.
struct BlockSides {
  size_t rows, k, columns, piece, x_every, w_every, units, pieces, x_blocks, w_blocks, panels;
  std::vector<int8_t> x;
  Bytes codes, zeros;
  Floats floats, x_scales, bias;
  std::vector<int32_t> x_zeros;
  bool has_zeros, has_minima, has_x_zeros;
  int bits;
  int32_t zero;

  // Numbers of blocks, perhaps in two levels.
  struct Numbers {
    Floats floats;
    std::vector<uint16_t> halves;
    std::vector<int8_t> fine;
    bool is_half;
    size_t each;

    Numbers(size_t panels, size_t blocks) : is_half(pick(0, 1) == 0), each(1) {
      const bool has_levels = pick(0, 1) == 0;
      while (has_levels && (blocks % each != 0 || pick(0, 1) == 0)) each = each % blocks + 1;
      floats = some_floats(panels * (blocks / each) * kBlockPanel, false);
      for (const float number : floats) halves.push_back(float_to_half(number));
      if (has_levels) fine.resize(panels * blocks * kBlockPanel);
      for (int8_t& number : fine) number = static_cast<int8_t>(pick(-128, 127));
    }

    BlockReals reals() const {
      BlockReals found;
      found.values = is_half ? static_cast<const void*>(halves.data()) : floats.data();
      found.is_half = is_half;
      if (!fine.empty()) found.fine = fine.data();
      found.each = each;
      return found;
    }

    // As a step gives them to a kernel; `products` holds those of two levels.
    BlockReals reals(const BlockGemmOps& ops, size_t rows, size_t panels, size_t blocks,
                     Floats& products) const {
      BlockReals found = reals();
      if (fine.empty() || rows <= ops.few_rows) return found;
      products.resize(panels * blocks * kBlockPanel);
      for (size_t panel = 0; panel < panels; ++panel) {
        const size_t first = panel * (blocks / each) * kBlockPanel;
        found.values = is_half ? static_cast<const void*>(halves.data() + first) : floats.data() + first;
        found.fine = fine.data() + panel * blocks * kBlockPanel;
        const size_t half = blocks / 2;  // parts begin within super-blocks, too
        float* const to = products.data() + panel * blocks * kBlockPanel;
        ops.multiply_levels(found, 0, half, to);
        ops.multiply_levels(found, half, blocks - half, to + half * kBlockPanel);
      }
      found = {};
      found.values = products.data();
      return found;
    }
  };
  std::optional<Numbers> scales, minima;

  BlockSides() : rows(static_cast<size_t>(pick(1, 37))), k(static_cast<size_t>(pick(1, 150))) {
    const auto some = [](int low, int high) { return static_cast<size_t>(pick(low, high)); };
    columns = some(1, 40);
    bits = std::array{4, 5, 6, 8}[some(0, 3)];
    if (bits == 5 || bits == 6) k = some(1, 5) * block_units(bits) * kBlockUnit;
    units = (k + kBlockUnit - 1) / kBlockUnit;
    const size_t whole = pick(0, 1) == 0 ? 1 : block_units(bits);  // units
    piece = some(1, static_cast<int>(units / whole)) * whole;
    pieces = (units + piece - 1) / piece;
    x_every = pick(0, 1) == 0 ? 1 : some(1, static_cast<int>(pieces));
    w_every = x_every > 1 ? 1 : some(1, static_cast<int>(pieces));
    x_blocks = (pieces + x_every - 1) / x_every;
    w_blocks = (pieces + w_every - 1) / w_every;
    panels = (columns + kBlockPanel - 1) / kBlockPanel;
    has_zeros = pick(0, 1) == 0;
    has_minima = pick(0, 1) == 0;
    has_x_zeros = pick(0, 1) == 0;
    floats = some_floats(rows * k, false);
    x.resize(rows * k);
    for (int8_t& code : x) code = static_cast<int8_t>(pick(-128, 127));
    codes = some_bytes(panels * units * static_cast<size_t>(bits) * 16);
    zeros = some_bytes(panels * w_blocks * kBlockPanel, (1 << bits) - 1);
    scales.emplace(panels, w_blocks);
    if (has_minima) minima.emplace(panels, w_blocks);
    const std::array<int, 3> points{0, 1 << (bits - 1), pick(0, (1 << bits) - 1)};
    zero = points[some(0, 2)];
    bias = some_floats(panels * kBlockPanel, false);
    x_scales = some_floats(rows * x_blocks, false);
    x_zeros.resize(rows * x_blocks);
    for (int32_t& zero : x_zeros) zero = has_x_zeros ? pick(-128, 127) : 0;
  }

  void run(const BlockGemmOps& ops, float* y) const {
    const size_t group = ops.group, groups = (rows + group - 1) / group, row_bytes = units * kBlockUnit;
    std::vector<int8_t> laid(groups * group * row_bytes);
    std::vector<int32_t> negatives(groups * group * pieces), shifts(groups * group * x_blocks);
    Floats ranges(groups * group * x_blocks);
    for (size_t row = 0; row < rows; ++row) {
      const size_t first = row / group * group, turn = row % group;
      for (size_t i = 0; i < k; ++i) {
        const size_t within = ops.by_turns ? (i / 4 * group + turn) * 4 + i % 4 : turn * row_bytes + i;
        laid[first * row_bytes + within] = x[row * k + i];
        negatives[(first * pieces) + i / kBlockUnit / piece * group + turn] +=
            x_zeros[row * x_blocks + i / kBlockUnit / piece / x_every] - x[row * k + i];
      }
      for (size_t b = 0; b < x_blocks; ++b) {
        ranges[first * x_blocks + b * group + turn] = x_scales[row * x_blocks + b];
        shifts[first * x_blocks + b * group + turn] = x_zeros[row * x_blocks + b];
      }
    }
    const std::vector<int32_t> sums = sums_of_codes();
    std::vector<uint8_t> scratch(ops.scratch * units + 64);
    BlockGemm g{};
    g.x = laid.data();
    g.rows = rows;
    g.negatives = negatives.data();
    g.x_scales = ranges.data();
    g.x_zeros = has_x_zeros ? shifts.data() : nullptr;
    g.x_blocks = x_blocks;
    g.codes = codes.data();
    Floats scale_products, minimum_products;
    g.scales = scales->reals(ops, rows, panels, w_blocks, scale_products);
    g.zeros = has_zeros ? zeros.data() : nullptr;
    g.zero = zero;
    if (minima) g.minima = minima->reals(ops, rows, panels, w_blocks, minimum_products);
    g.sums = has_x_zeros ? sums.data() : nullptr;
    g.w_blocks = w_blocks;
    g.bias = has_minima ? bias.data() : nullptr;
    g.k = k;
    g.units = units;
    g.pieces = pieces;
    g.piece = piece;
    g.x_every = x_every;
    g.w_every = w_every;
    g.y = y;
    g.y_pitch = columns;
    g.columns = columns;
    g.scratch = scratch.data();
    Bytes wide;
    if ((bits == 5 || bits == 6) && (rows > ops.few_rows || piece % block_units(bits) != 0)) {
      wide.resize(panels * units * 128);
      (bits == 5 ? ops.expand5 : ops.expand6)(codes.data(), panels * units, wide.data());
      g.codes = wide.data();
      return ops.multiply8(g);
    }
    (bits == 4 ? ops.multiply4 : bits == 5 ? ops.multiply5 : bits == 6 ? ops.multiply6 : ops.multiply8)(g);
  }

  void run_floats(const BlockGemmOps& ops, float* y) const {
    std::vector<const float*> a(rows);
    std::vector<float*> to(rows);
    for (size_t row = 0; row < rows; ++row) {
      a[row] = floats.data() + row * k;
      to[row] = y + row * columns;
    }
    BlockFloatRows g{};
    g.a = a.data();
    g.rows = rows;
    g.k = k;
    g.units = units;
    g.codes = codes.data();
    g.scales = scales->reals();
    g.zeros = has_zeros ? zeros.data() : nullptr;
    g.zero = zero;
    g.w_blocks = w_blocks;
    g.piece = piece * w_every;
    g.start = has_minima ? bias.data() : nullptr;
    g.y = to.data();
    g.columns = columns;
    bits == 4 ? ops.float_rows4(g) : ops.float_rows8(g);
  }

  // Of real elements alone: those behind the last one are multiplied by 0, whatever they are.
  std::vector<int32_t> sums_of_codes() const {
    std::vector<int32_t> sums(panels * pieces * kBlockPanel);
    for (size_t panel = 0; panel < panels; ++panel) {
      for (size_t i = 0; i < k; ++i) {
        const size_t unit = i / kBlockUnit;
        for (size_t lane = 0; lane < kBlockPanel; ++lane) {
          const uint8_t* const from = codes.data() + panel * units * static_cast<size_t>(bits) * 16;
          sums[(panel * pieces + unit / piece) * kBlockPanel + lane] += block_code(from, bits, i, lane);
        }
      }
    }
    return sums;
  }
};

bool check(const BlockGemmOps& ops) {
  const BlockSides sides;
  return differs(ops, block_gemm_ref, Floats(sides.rows * sides.columns + 9, 7),
                 [&](const auto& o, float* y) { sides.run(o, y); }) ||
         (sides.bits % 4 == 0 && differs(ops, block_gemm_ref, Floats(sides.rows * sides.columns + 9, 7),
                                         [&](const auto& o, float* y) { sides.run_floats(o, y); }));
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

bool check(const DynamicQuantizeOps& ops) {
  const size_t n = 1 + some_size(), block = 1 + some_size(), blocks = (n + block - 1) / block;
  const Floats x = some_floats(n, pick(0, 2) == 0);
  const auto signed_codes = [&](const auto& o, float* y) {
    o.int8(x.data(), n, block, reinterpret_cast<int8_t*>(y + blocks), y);
  };
  const auto codes = [&](const auto& o, float* y) {
    auto* const zeros = reinterpret_cast<uint8_t*>(y + blocks);
    o.uint8(x.data(), n, block, zeros + blocks, y, zeros);
  };
  const Floats fresh(2 * blocks + n + 9, 0.0f);
  return differs(ops, dynamic_quantize_ref, fresh, signed_codes) ||
         differs(ops, dynamic_quantize_ref, fresh, codes);
}

// They have programs of their own.
bool check(const GemmOps&) { return false; }
bool check(const MatMulOps&) { return false; }

template <class Ops>
int failures_of(const char* name, uint64_t needs, const Ops& ops) {
  if ((needs & cpu_features()) != needs || !acquire(needs)) return 0;
  constexpr int kTries = 400;
  int failures = 0;
  for (int i = 0; i < kTries; ++i) failures += check(ops) ? 1 : 0;
  std::printf("%s: %d of %d differ\n", name, failures, kTries);
  return failures;
}

}  // namespace
}  // namespace intact

int main() {
  using namespace intact;
  int failures = 0;
  // clang-format off: a path
#define INTACT_FAMILY_FILE(family) INTACT_TEXT(kernels/family/kernels.inc)
  // clang-format on
#define INTACT_KERNEL(name, needs) failures += failures_of(#name, needs, name);
#include "kernels/families.inc"
  return failures != 0;
}
