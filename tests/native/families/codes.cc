// Kernels between floats and codes, and on codes alone.
#include "checks.h"

namespace intact {

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

}  // namespace intact
