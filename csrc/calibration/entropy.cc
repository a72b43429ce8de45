#include "calibration/entropy.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "base/fp_env.h"

namespace intact {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double times_log(double x) { return x > 0 ? x * log_of(x) : 0.0; }

// The formula of calib/entropy.py. `own` is the sum of x log x over the shares of the first `end` bins.
double divergence(const Bins& bins, size_t levels, size_t end, double own) {
  const double total = bins.mass[bins.size], inside = bins.mass[end];
  const double last = bins.counts[end - 1] / total, tail = (total - inside) / total;
  if (!(inside > 0 && (last > 0 || tail == 0))) return kInf;
  double spread = 0, density = 0;
  size_t from = 0;
  for (size_t level = 1; level <= levels; ++level) {
    const size_t to = (level * end + levels - 1) / levels;
    const double m = bins.mass[to] - bins.mass[from], n = bins.filled[to] - bins.filled[from];
    density = m > 0 ? log_of(m / n) : 0.0;
    spread += m * density;
    from = to;
  }
  // With the mass of all bins taken out of every density.
  const double whole = log_of(total);
  spread = (spread - inside * whole) / total;
  return own - times_log(last) + times_log(last + tail) - spread - tail * (density - whole) +
         log_of(inside / total);
}

}  // namespace

double log_of(double x) {
  constexpr double kLn2High = 0x1.62e42fefap-1, kLn2Low = 0x1.cf79abc9e3b3ap-40;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  // x = 2^e m with m from sqrt(1/2) on: log m = 2 artanh(f), f = (m - 1) / (m + 1), |f| < 0.172.
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcd;
  const int64_t e = (static_cast<int64_t>(bits) - static_cast<int64_t>(kRootHalf)) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(e) << 52));
  const double f = (m - 1) / (m + 1), s = f * f;
  double series = 1.0 / 21;
  for (int k = 19; k >= 3; k -= 2) series = series * s + 1.0 / k;
  const double tail = 2 * f * (s * series) + static_cast<double>(e) * kLn2Low;
  return static_cast<double>(e) * kLn2High + (2 * f + tail);
}

void entropy_divergences(const Bins& bins, size_t levels, double sure, const int64_t* candidates,
                         const double* bounds, size_t n, double* out) {
  ScopedFpEnv env;
  std::vector<double> own(bins.size + 1, 0.0);
  const double total = bins.mass[bins.size];
  for (size_t i = 0; i < bins.size; ++i) own[i + 1] = own[i] + times_log(bins.counts[i] / total);
  double least = kInf;
  std::fill_n(out, n, kInf);
  for (size_t c = 0; c < n && !(bounds[c] > least + sure); ++c) {
    const auto end = static_cast<size_t>(candidates[c]);
    out[c] = divergence(bins, levels, end, own[end]);
    least = std::min(least, out[c]);
  }
}

}  // namespace intact
