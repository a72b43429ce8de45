// The meaning of the family, in the fewest lines.
#include "kernels/block_gemm/block_gemm.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"

namespace intact {
namespace {

constexpr size_t kGroup = 4;

float real(const BlockReals& reals, size_t at) {
  return reals.is_half ? half_to_float(static_cast<const uint16_t*>(reals.values)[at])
                       : static_cast<const float*>(reals.values)[at];
}

// The number of a block of a panel that has so many.
float number(const BlockReals& reals, size_t blocks, size_t panel, size_t block, size_t lane) {
  const size_t at = (panel * blocks + block) * kBlockPanel + lane;
  if (reals.fine == nullptr) return real(reals, at);
  const size_t super = panel * (blocks / reals.each) + block / reals.each;
  return static_cast<float>(reals.fine[at]) * real(reals, super * kBlockPanel + lane);
}

void lay(const BlockLay& l) {
  std::fill_n(l.codes, kGroup * l.units * kBlockUnit, int8_t{0});
  std::fill_n(l.negatives, kGroup * l.pieces, 0);
  for (size_t row = 0; row < kGroup; ++row) {
    for (size_t k = 0; l.x[row] != nullptr && k < l.k; ++k) {
      const auto code = static_cast<int8_t>(l.x[row][k] ^ (l.is_unsigned ? 128 : 0));
      l.codes[(k / 4 * kGroup + row) * 4 + k % 4] = code;
      l.negatives[k / kBlockUnit / l.piece * kGroup + row] -= code;
    }
  }
}

template <int kBits>
void multiply(const BlockGemm& g) {
  for (size_t column = 0; column < g.columns; ++column) {
    const size_t panel = column / kBlockPanel, lane = column % kBlockPanel;
    const uint8_t* const codes = g.codes + panel * g.units * block_unit_bytes(kBits);
    const auto of_block = [&](const BlockReals& reals, size_t block) {
      return number(reals, g.w_blocks, panel, block, lane);
    };
    for (size_t row = 0; row < g.rows; ++row) {
      const size_t group = row / kGroup, turn = row % kGroup;
      const auto of_row = [&](const auto* values, size_t each, size_t at) {
        return values[(group * each + at) * kGroup + turn];
      };
      float y = 0.0f;
      for (size_t p = 0; p < g.pieces; ++p) {
        const size_t x_block = p / g.x_every, w_block = p / g.w_every;
        const size_t at = (panel * g.w_blocks + w_block) * kBlockPanel + lane;
        const int32_t zero = g.zeros != nullptr ? g.zeros[at] : g.zero;
        const int32_t negative = of_row(g.negatives, g.pieces, p);
        auto sum = static_cast<uint32_t>(zero) * static_cast<uint32_t>(negative);
        const size_t end = std::min(g.units, (p + 1) * g.piece) * kBlockUnit;
        for (size_t k = p * g.piece * kBlockUnit; k < end; ++k) {
          const size_t four = group * g.units * 2 + k / 4;
          const int code = kBits == kBlockTable ? g.table[block_code(codes, 4, k, lane)]
                                                : block_code(codes, kBits, k, lane);
          sum += static_cast<uint32_t>(g.x[(four * kGroup + turn) * 4 + k % 4] * code);
        }
        if (g.x_zeros != nullptr)
          sum -= static_cast<uint32_t>(of_row(g.x_zeros, g.x_blocks, x_block)) *
                 static_cast<uint32_t>(g.sums[(panel * g.pieces + p) * kBlockPanel + lane]);
        const float scale = of_row(g.x_scales, g.x_blocks, x_block);
        y += static_cast<float>(static_cast<int32_t>(sum)) * (scale * of_block(g.scales, w_block));
        if (g.minima.values != nullptr)
          y += static_cast<float>(-negative) * (scale * of_block(g.minima, w_block));
      }
      g.y[row * g.y_pitch + column] = g.bias != nullptr ? y + g.bias[column] : y;
    }
  }
}

// The float of output `lane` of a panel without its minimum. Its block is the panel's `block`, of `blocks` of
// each side.
template <int kBits, class Sides>
float weight(const Sides& w, const uint8_t* codes, size_t k, size_t blocks, size_t panel, size_t block,
             size_t lane) {
  const int zero = w.zeros == nullptr ? w.zero : w.zeros[(panel * blocks + block) * kBlockPanel + lane];
  const int code = block_code(codes, kBits, k, lane);
  const bool has_table = kBits == 4 && w.table != nullptr;
  return (has_table ? w.table[code] : static_cast<float>(code - zero)) *
         number(w.scales, blocks, panel, block, lane);
}

template <int kBits>
void widen(const BlockFloats& w) {
  float* to = w.to;
  for (size_t k = 0; k < w.units * kBlockUnit; ++k, to += w.width) {
    const size_t block = (w.from + k / kBlockUnit) / w.piece;
    for (size_t i = 0; i < kBlockPanel; ++i) {
      const float value = weight<kBits>(w, w.codes, k, 0, 0, block, i);
      to[i / w.width * w.pitch + i % w.width] =
          w.minima.values == nullptr ? value : value + number(w.minima, 0, 0, block, i);
    }
  }
}

template <int kBits>
void float_rows(const BlockFloatRows& g) {
  for (size_t column = 0; column < g.columns; ++column) {
    const size_t panel = column / kBlockPanel, lane = column % kBlockPanel;
    const uint8_t* const codes = g.codes + panel * g.units * (kBits * 16);
    for (size_t row = 0; row < g.rows; ++row) {
      float y = g.start != nullptr ? g.start[column] : 0.0f;
      for (size_t k = 0; k < g.k; ++k) {
        const size_t block = k / kBlockUnit / g.piece;
        y = std::fma(g.a[row][k], weight<kBits>(g, codes, k, g.w_blocks, panel, block, lane), y);
      }
      g.y[row][column] = y;
    }
  }
}

template <int kBits>
void expand(const uint8_t* codes, size_t units, uint8_t* to) {
  for (size_t k = 0; k < units * kBlockUnit; ++k) {
    for (size_t i = 0; i < kBlockPanel; ++i) to[k / 4 * 64 + i * 4 + k % 4] = block_code(codes, kBits, k, i);
  }
}

void expand_table(const uint8_t* codes, size_t units, const uint8_t* table, uint8_t* to) {
  for (size_t k = 0; k < units * kBlockUnit; ++k) {
    for (size_t i = 0; i < kBlockPanel; ++i)
      to[k / 4 * 64 + i * 4 + k % 4] = table[block_code(codes, 4, k, i)];
  }
}

void multiply_levels(const BlockReals& reals, size_t from, size_t blocks, float* to) {
  for (size_t b = 0; b < blocks; ++b) {
    for (size_t i = 0; i < kBlockPanel; ++i) to[b * kBlockPanel + i] = number(reals, 0, 0, from + b, i);
  }
}

}  // namespace

const BlockGemmOps block_gemm_ref = {kGroup,
                                     lay,
                                     1,
                                     0,
                                     1,
                                     ~size_t{0},
                                     multiply<4>,
                                     multiply<5>,
                                     multiply<6>,
                                     multiply<8>,
                                     multiply<kBlockTable>,
                                     widen<4>,
                                     widen<8>,
                                     float_rows<4>,
                                     float_rows<8>,
                                     expand<5>,
                                     expand<6>,
                                     expand_table,
                                     multiply_levels};

}  // namespace intact
