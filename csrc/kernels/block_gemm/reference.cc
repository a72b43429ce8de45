// The meaning of the family, in the fewest lines.
#include "kernels/block_gemm/block_gemm.h"

#include <algorithm>

#include "base/half.h"

namespace intact {
namespace {

constexpr size_t kGroup = 4;

template <int kBits>
int32_t code(const uint8_t* panel, size_t k, size_t lane) {
  const size_t unit = k / kBlockUnit, half = k % kBlockUnit / 4, at = lane * 4 + k % 4;
  if (kBits == 8) return panel[(unit * 2 + half) * 64 + at];
  return panel[unit * 64 + at] >> (4 * half) & 15;
}

float real(const BlockReals& reals, size_t at) {
  return reals.is_half ? half_to_float(static_cast<const uint16_t*>(reals.values)[at])
                       : static_cast<const float*>(reals.values)[at];
}

template <int kBits>
void multiply(const BlockGemm& g) {
  for (size_t column = 0; column < g.columns; ++column) {
    const size_t panel = column / kBlockPanel, lane = column % kBlockPanel;
    const uint8_t* const codes = g.codes + panel * g.units * (kBits * 16);
    const auto of_block = [&](size_t block) { return (panel * g.w_blocks + block) * kBlockPanel + lane; };
    for (size_t row = 0; row < g.rows; ++row) {
      const size_t group = row / kGroup, turn = row % kGroup;
      const auto of_row = [&](const auto* values, size_t each, size_t at) {
        return values[(group * each + at) * kGroup + turn];
      };
      float y = 0.0f;
      for (size_t p = 0; p < g.pieces; ++p) {
        const size_t x_block = p / g.x_every, w_block = p / g.w_every;
        const int32_t zero = g.zeros != nullptr ? g.zeros[of_block(w_block)] : g.zero;
        const int32_t negative = of_row(g.negatives, g.pieces, p);
        auto sum = static_cast<uint32_t>(zero) * static_cast<uint32_t>(negative);
        const size_t end = std::min(g.units, (p + 1) * g.piece) * kBlockUnit;
        for (size_t k = p * g.piece * kBlockUnit; k < end; ++k) {
          const size_t four = group * g.units * 2 + k / 4;
          sum += static_cast<uint32_t>(g.x[(four * kGroup + turn) * 4 + k % 4] * code<kBits>(codes, k, lane));
        }
        if (g.x_zeros != nullptr)
          sum -= static_cast<uint32_t>(of_row(g.x_zeros, g.x_blocks, x_block)) *
                 static_cast<uint32_t>(g.sums[(panel * g.pieces + p) * kBlockPanel + lane]);
        const float scale = of_row(g.x_scales, g.x_blocks, x_block);
        y += static_cast<float>(static_cast<int32_t>(sum)) * (scale * real(g.scales, of_block(w_block)));
        if (g.minima.values != nullptr)
          y += static_cast<float>(-negative) * (scale * real(g.minima, of_block(w_block)));
      }
      g.y[row * g.y_pitch + column] = g.bias != nullptr ? y + g.bias[column] : y;
    }
  }
}

template <int kBits>
void widen(const BlockFloats& w) {
  constexpr size_t kUnitBytes = kBits * 16;
  float* to = w.to;
  for (size_t k = w.from * kBlockUnit; k < (w.from + w.units) * kBlockUnit; ++k, to += w.width) {
    const size_t half = k % kBlockUnit / 4;
    const uint8_t* const codes = w.codes + k / kBlockUnit * kUnitBytes + (kBits == 8 ? half * 64 : 0) + k % 4;
    for (size_t i = 0; i < kBlockPanel; ++i) {
      const size_t at = k / kBlockUnit / w.piece * kBlockPanel + i;
      const int code = kBits == 8 ? codes[4 * i] : codes[4 * i] >> (4 * half) & 15;
      const int zero = w.zeros == nullptr ? w.zero : w.zeros[at];
      const float value = static_cast<float>(code - zero) * real(w.scales, at);
      to[i / w.width * w.pitch + i % w.width] =
          w.minima.values == nullptr ? value : value + real(w.minima, at);
    }
  }
}

void multiply_levels(const BlockLevels& l) {
  for (size_t b = 0; b < l.blocks; ++b) {
    for (size_t i = 0; i < kBlockPanel; ++i) {
      const auto fine = static_cast<float>(l.fine[(l.from + b) * kBlockPanel + i]);
      l.to[b * kBlockPanel + i] = fine * real(l.coarse, (l.from + b) / l.each * kBlockPanel + i);
    }
  }
}

}  // namespace

const BlockGemmOps block_gemm_ref = {kGroup,      true,        1,        0,        1,
                                     multiply<4>, multiply<8>, widen<4>, widen<8>, multiply_levels};

}  // namespace intact
