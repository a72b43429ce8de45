// Random sides for kernels, and one check for each family: whether a kernel differs from the plain one of its
// family. Sizes lie around every number of lanes.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "../driver.h"
#include "base/divisor.h"
#include "kernels/registry.h"

namespace intact {

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

inline constexpr float kInf = std::numeric_limits<float>::infinity(),
                       kNan = std::numeric_limits<float>::quiet_NaN();

inline size_t some_size() { return static_cast<size_t>(pick(0, 3) == 0 ? pick(0, 300) : pick(0, 40)); }

// Returns a float near steps of 1/4, among them ties and both zeros; now and then one far out, or a NaN.
inline float some_float(bool wild) {
  constexpr float kWild[] = {kInf, -kInf, kNan, 3e38f, -3e38f, 1e-40f, -1e-40f, 0.0f, -0.0f, 1e9f, -1e9f};
  if (wild && pick(0, 9) == 0) return kWild[pick(0, 10)];
  const float tie = static_cast<float>(pick(-1200, 1200)) / 8;
  return pick(0, 1) == 0 ? tie : tie * static_cast<float>(pick(1, 99999)) * 1e-5f;
}

inline Floats some_floats(size_t n, bool wild) {
  Floats x(n);
  for (float& v : x) v = some_float(wild);
  return x;
}

inline Bytes some_bytes(size_t n, int high = 255) {
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

inline ByteGrid some_grid() {
  const int low = pick(0, 255);
  return {pick(-300, 300), low, pick(low, 255)};
}

// A product where one gives a division's codes, and now and then the division where one would.
inline Divisor some_divisor(const ByteGrid& grid) {
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

bool check(const BlockGemmOps& ops);
bool check(const ConvertOps& ops);
bool check(const DepthwiseOps& ops);
bool check(const DynamicDepthwiseOps& ops);
bool check(const DynamicQuantizeOps& ops);
bool check(const ElementwiseOps& ops);
bool check(const FakeQuantizeGradOps& ops);
bool check(const FakeQuantizeOps& ops);
bool check(const FloatGemmOps& ops);
bool check(const FloatOps& ops);
bool check(const HistogramOps& ops);
bool check(const MomentsOps& ops);
bool check(const PointwiseOps& ops);
bool check(const PoolOps& ops);
bool check(const QuantizeOps& ops);
bool check(const ReduceOps& ops);
bool check(const TransposeOps& ops);
bool check(const WinogradOps& ops);

// They have programs of their own.
inline bool check(const GemmOps& /*ops*/) { return false; }
inline bool check(const MatMulOps& /*ops*/) { return false; }

}  // namespace intact
