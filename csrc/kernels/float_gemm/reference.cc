// The meaning of the family, in the fewest lines.
#include <cmath>

#include "kernels/float_gemm/pack.h"

namespace intact {
namespace {

constexpr size_t kPanel = 4;

void multiply(const FloatGemm& g) {
  for (size_t r = 0; r < g.rows; ++r) {
    for (size_t c = 0; c < g.columns; ++c) {
      const float* b = g.b + c / kPanel * g.pitch + c % kPanel;
      const size_t down = g.down == 0 ? kPanel : g.down;
      float acc = g.more ? g.y[r][c] : g.start != nullptr ? g.start[c] : 0.0f;
      for (size_t run = 0; run < g.runs; ++run) {
        const float* a = g.a[r] + g.offsets[run];
        for (size_t k = 0; k < g.length; ++k, a += g.step, b += down) acc = std::fma(*a, *b, acc);
      }
      g.y[r][c] = acc;
    }
  }
}

void depthwise(const FloatDepthwise& d) {
  for (size_t p = 0; p < d.pixels; ++p) {
    for (size_t c = 0; c < d.channels; ++c) {
      float acc = d.start != nullptr ? d.start[c] : 0.0f;
      for (size_t t = 0; t < d.taps; ++t) {
        acc = std::fma(d.x[p][d.offsets[t] + static_cast<ptrdiff_t>(c)], d.w[t * d.channels + c], acc);
      }
      d.y[p][c] = acc;
    }
  }
}

void filter(const FloatFilter& f) {
  for (size_t p = 0; p < f.pixels; ++p) {
    float acc = f.start;
    for (size_t t = 0; t < f.taps; ++t) {
      acc = std::fma(f.x[f.offsets[t] + static_cast<ptrdiff_t>(p)], f.w[t * f.step], acc);
    }
    f.y[p] = acc;
  }
}

}  // namespace

const FloatGemmOps float_gemm_ref = {1, kPanel, pack_panels<kPanel>, multiply, depthwise, filter};

}  // namespace intact
