// The meaning of the family, in the fewest lines. A comparison with a NaN is false, so a NaN in x is taken;
// one that is already there stays by the first test.
#include <cmath>
#include <limits>

#include "kernels/reduce/reduce.h"

namespace intact {
namespace {

float larger(float running, float x) { return std::isnan(running) || running >= x ? running : x; }

float smaller(float running, float x) { return std::isnan(running) || running <= x ? running : x; }

void absmax_each(const float* x, size_t n, float* amax) {
  for (size_t i = 0; i < n; ++i) amax[i] = larger(amax[i], std::fabs(x[i]));
}

void minmax_each(const float* x, size_t n, float* min, float* max) {
  for (size_t i = 0; i < n; ++i) {
    min[i] = smaller(min[i], x[i]);
    max[i] = larger(max[i], x[i]);
  }
}

float absmax(const float* x, size_t n) {
  float running = 0.0f;
  for (size_t i = 0; i < n; ++i) absmax_each(x + i, 1, &running);
  return running;
}

MinMax minmax(const float* x, size_t n) {
  const float inf = std::numeric_limits<float>::infinity();
  MinMax running = {inf, -inf};
  for (size_t i = 0; i < n; ++i) minmax_each(x + i, 1, &running.min, &running.max);
  return running;
}

}  // namespace

const ReduceOps reduce_ref = {absmax, minmax, absmax_each, minmax_each};

}  // namespace intact
