// The meaning of the family, in the fewest lines.
#include <cmath>
#include <cstring>

#include "kernels/gemm/gemm.h"

namespace intact {
namespace {

constexpr int kUnit = 8;

void sum(const GemmSteps& s, const GemmTile& t) {
  for (int row = 0; row < t.rows; ++row) {
    const uint8_t* const x = t.x[row] + t.x_offset;
    int32_t* const sums = t.sums + row * s.width;
    std::memcpy(sums, t.correction, sizeof(int32_t) * static_cast<size_t>(s.width));
    const int8_t* w = s.weights;
    for (int32_t run = 0; run < s.counts[0]; ++run) {
      const uint8_t* from = x + s.steps[2 * run];
      for (int32_t k = 0; k < s.steps[2 * run + 1]; ++k, from += 4) {
        for (int c = 0; c < s.width; ++c, w += 4) {
          int32_t dot = 0;
          for (int b = 0; b < 4; ++b) dot += int32_t{from[b]} * w[b];
          sums[c] = static_cast<int32_t>(static_cast<uint32_t>(sums[c]) + static_cast<uint32_t>(dot));
        }
      }
    }
  }
}

float residual_of(const Epilogue& e, const GemmRows& t, int row, int c) {
  const int32_t code = t.residual[row][t.residual_offset + c];
  return static_cast<float>(code - e.residual_zero_point) * e.residual_multiplier;
}

// Rounded and clamped to a byte; clamping first to the same bounds keeps the conversion in range.
uint8_t byte_of(const Epilogue& e, float steps) {
  const float low = static_cast<float>(e.low - e.zero_point);
  const float high = static_cast<float>(e.high - e.zero_point);
  if (!(steps > low)) steps = low;
  if (steps > high) steps = high;
  return static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(steps)) + e.zero_point);
}

void clamp_floats(const Epilogue& e, float* floats, int n) {
  for (int c = 0; c < n; ++c) {
    if (floats[c] < e.real_low) floats[c] = e.real_low;
    if (floats[c] > e.real_high) floats[c] = e.real_high;
  }
}

}  // namespace

void gemm_finish(const Epilogue& e, const GemmRows& t) {
  for (int row = 0; row < t.rows; ++row) {
    float* const floats = t.scratch;
    for (int c = 0; c < t.channels; ++c) {
      floats[c] = static_cast<float>(t.sums[row * t.width + c]) * t.multiplier[c];
      floats[c] = floats[c] + t.bias[c];
      if (t.gains != nullptr) floats[c] = floats[c] * t.gains[c];
      if (t.gains != nullptr) floats[c] = floats[c] + t.shifts[c];
      if (e.has_residual) floats[c] = floats[c] + residual_of(e, t, row, c);
      if (t.slopes != nullptr && floats[c] < 0) floats[c] = floats[c] * t.slopes[c];
    }
    if (e.function != nullptr) e.function(floats, floats, static_cast<size_t>(t.channels));
    for (int c = 0; t.factors != nullptr && c < t.channels; ++c) floats[c] = floats[c] * t.factors[c];
    for (int c = 0; t.offsets != nullptr && c < t.channels; ++c) floats[c] = floats[c] + t.offsets[c];
    uint8_t* const y = t.y[row] + t.y_offset;
    if (e.floats) {
      clamp_floats(e, floats, t.channels);
      std::memcpy(y, floats, sizeof(float) * static_cast<size_t>(t.channels));
      continue;
    }
    const bool divides = e.divides || e.function != nullptr;
    for (int c = 0; divides && c < t.channels; ++c) floats[c] = floats[c] / e.scale;
    for (int c = 0; c < t.channels; ++c) y[c] = byte_of(e, floats[c]);
  }
}

const GemmOps gemm_ref = {kUnit, 4, false, {4, 4, 4, 4}, 0, sum, gemm_finish};

}  // namespace intact
