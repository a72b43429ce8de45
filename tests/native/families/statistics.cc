// Kernels that count, fold and multiply samples.
#include "checks.h"

namespace intact {

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

}  // namespace intact
