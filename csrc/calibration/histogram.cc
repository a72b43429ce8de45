#include "calibration/histogram.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/fp_env.h"
#include "base/tuning.h"
#include "runtime/thread_pool.h"

namespace intact {
namespace {

using namespace tuning::tensors;

constexpr size_t kMostAtOnce = 1u << 31;  // a 32-bit counter cannot overflow in between

// Counters of one thread, 32 bits wide and interleaved by hand.
class Counters {
 public:
  explicit Counters(size_t slots) : slots_(slots), counts_(slots * kWays, 0) {}

  void add(const uint32_t* slot, size_t n) {
    uint32_t* const way[kWays] = {&counts_[0], &counts_[slots_], &counts_[2 * slots_], &counts_[3 * slots_]};
    size_t i = 0;
    for (; i + kWays <= n; i += kWays) {
      uint64_t pair[2];  // two loads instead of four: the load ports are the bottleneck here
      std::memcpy(pair, slot + i, sizeof pair);
      ++way[0][static_cast<uint32_t>(pair[0])];
      ++way[1][pair[0] >> 32];
      ++way[2][static_cast<uint32_t>(pair[1])];
      ++way[3][pair[1] >> 32];
    }
    for (; i < n; ++i) ++way[0][slot[i]];
  }

  void flush(std::vector<int64_t>& to) {
    for (size_t s = 0; s < slots_; ++s) {
      for (size_t w = 0; w < kWays; ++w) to[s] += counts_[w * slots_ + s];
    }
    std::memset(counts_.data(), 0, counts_.size() * sizeof counts_[0]);
  }

 private:
  size_t slots_;
  std::vector<uint32_t> counts_;
};

// place(x, n, slot, part) writes the slots of one piece. Returns the counts of all slots.
template <class Place>
std::vector<int64_t> count_slots(const Source& x, size_t n, size_t slots, int threads, Place place) {
  const size_t parts = static_cast<size_t>(parts_of(n, kHistogramGrain, threads));
  std::vector<std::vector<int64_t>> total(parts, std::vector<int64_t>(slots, 0));
  parallel_for(n, kHistogramGrain, threads, [&](size_t begin, size_t end, int part) {
    ScopedFpEnv env;
    std::vector<int64_t>& mine = total[static_cast<size_t>(part)];
    // Few values: clearing and adding up the sub-histograms would cost more than they save.
    const bool small = end - begin < 4 * slots;
    Counters counters(small ? 1 : slots);
    float scratch[kPiece];
    uint32_t slot[kPiece];
    size_t since_flush = 0;
    for (size_t i = begin; i < end; i += kPiece) {
      const size_t m = kPiece < end - i ? kPiece : end - i;
      place(x.read(i, m, scratch), m, slot, part);
      if (small) {
        for (size_t k = 0; k < m; ++k) ++mine[slot[k]];
        continue;
      }
      if (since_flush + m > kMostAtOnce) {
        counters.flush(mine);
        since_flush = 0;
      }
      counters.add(slot, m);
      since_flush += m;
    }
    if (!small) counters.flush(mine);
  });
  for (size_t part = 1; part < parts; ++part) {
    for (size_t s = 0; s < slots; ++s) total[0][s] += total[part][s];
  }
  return total[0];
}

// 2^-exponent as two factors, each a normal float32. Beyond +-250 the bins do not change any more: all
// finite values lie in the first one, or none but zero lies in any.
Pow2Bins pow2_bins(int exponent, uint32_t bins) {
  const int bounded = exponent < -250 ? -250 : exponent > 250 ? 250 : exponent;
  const int first = -bounded / 2, second = -bounded - first;
  return {std::ldexp(1.0f, first), std::ldexp(1.0f, second), bins};
}

}  // namespace

ValueRange count_pow2(const HistogramOps& ops, const Source& x, size_t n, int exponent, uint32_t bins,
                      int threads, int64_t* negative, int64_t* positive) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const Pow2Bins pow2 = pow2_bins(exponent, bins);
  const size_t parts = static_cast<size_t>(parts_of(n, kHistogramGrain, threads));
  std::vector<ValueRange> ranges(parts, ValueRange{inf, -inf, 0});
  const std::vector<int64_t> counts =
      count_slots(x, n, 2 * static_cast<size_t>(bins) + 1, threads,
                  [&](const float* piece, size_t m, uint32_t* slot, int part) {
                    ops.pow2(piece, m, pow2, slot, ranges[static_cast<size_t>(part)]);
                  });
  for (uint32_t b = 0; b < bins; ++b) {
    positive[b] += counts[b];
    negative[b] += counts[bins + b];
  }
  ScopedFpEnv env;
  ValueRange all = ranges[0];
  for (const ValueRange& e : ranges) {
    all.min = e.min < all.min ? e.min : all.min;
    all.max = e.max > all.max ? e.max : all.max;
  }
  for (size_t part = 1; part < parts; ++part) all.nonfinite += ranges[part].nonfinite;
  return {all.min + 0.0f, all.max + 0.0f, all.nonfinite};
}

void count_fixed(const HistogramOps& ops, const Source& x, size_t n, const FixedBins& bins, int threads,
                 int64_t* counts) {
  const std::vector<int64_t> found = count_slots(
      x, n, static_cast<size_t>(bins.bins) + 1, threads,
      [&](const float* piece, size_t m, uint32_t* slot, int) { ops.fixed(piece, m, bins, slot); });
  for (uint32_t b = 0; b < bins.bins; ++b) counts[b] += found[b];
}

}  // namespace intact
