// Rows of floats times the floats of block weights, which are widened in registers, for every register width.
// A panel's outputs are lanes, so that sums keep the order of N51.
#pragma once

#include "kernels/block_gemm/generic.h"
#include "kernels/block_gemm/lay_rows.h"

namespace intact::block_gemm {

#if INTACT_ARCH_X86
// Those of x86: kernels of integers that share their registers share these, too.
void widen4_avx512(const BlockFloats& w);
void widen8_avx512(const BlockFloats& w);
void float_rows4_avx512(const BlockFloatRows& g);
void float_rows8_avx512(const BlockFloatRows& g);
void expand_table_avx512(const uint8_t* codes, size_t units, const uint8_t* table, uint8_t* to);
void float_rows4_avx2(const BlockFloatRows& g);
void float_rows8_avx2(const BlockFloatRows& g);
#endif

// Compilers hold what was stored in registers, of which there are too few, unless it may have changed.
INTACT_INLINE void keep_in_memory([[maybe_unused]] float* values) {
#if defined(__GNUC__) || defined(__clang__)
  __asm__ volatile("" : : "r"(values) : "memory");
#endif
}

// kRows rows from `row` on by kPanels panels from `panel` on.
template <class V, class Codes, int kBits, int kRows, int kPanels>
struct FloatTile {
  static constexpr int kVectors = kPanels * static_cast<int>(kBlockPanel / V::kWidth);
  static constexpr size_t kUnitBytes = kBits * 16;

  const BlockFloatRows& g;
  const size_t panel, row;
  Numbers<V, true> scales;
  F<V> sums[kRows][kVectors], scale[kVectors], zero[kVectors];
  const float* a[kRows];

  INTACT_INLINE FloatTile(const BlockFloatRows& rows, size_t first_panel, size_t first_row)
      : g(rows), panel(first_panel), row(first_row), scales(rows.scales, rows.w_blocks, first_panel, 0) {}

  size_t column_of(int v) const { return (panel + panel_of<V>(v)) * kBlockPanel + lane_of<V>(v); }
  size_t lanes_of(int v) const {
    const size_t column = column_of(v), left = column < g.columns ? g.columns - column : 0;
    return left < V::kWidth ? left : V::kWidth;
  }

  INTACT_INLINE void begin() {
    for (int r = 0; r < kRows; ++r) a[r] = g.a[row + static_cast<size_t>(r)];
    for (int v = 0; v < kVectors; ++v) {
      const size_t lanes = lanes_of(v);
      const F<V> first =
          g.start != nullptr && lanes > 0 ? vec::load<V>(g.start + column_of(v), lanes) : V::set(0.0f);
      for (int r = 0; r < kRows; ++r) sums[r][v] = first;
    }
  }

  INTACT_INLINE void load_block(size_t block) {
    for (int v = 0; v < kVectors; ++v) {
      const size_t at = ((panel + panel_of<V>(v)) * g.w_blocks + block) * kBlockPanel + lane_of<V>(v);
      scale[v] = scales.load(v);
      zero[v] =
          g.zeros == nullptr ? V::set(static_cast<float>(g.zero)) : V::to_float(V::load_u8(g.zeros + at));
    }
    scales.next();
  }

  const uint8_t* codes_of(size_t unit, int v) const {
    return g.codes + ((panel + panel_of<V>(v)) * g.units + unit) * kUnitBytes + lane_of<V>(v) * 4;
  }

  // The elements of a half of a unit from kElement on; `count` of them are there.
  template <int kElement>
  INTACT_INLINE void add_half(const I<V> (&codes)[kVectors], const Codes& values, size_t k, size_t count) {
    if constexpr (kElement < 4) {
      if (static_cast<size_t>(kElement) >= count) return;
      F<V> left[kRows];
      for (int r = 0; r < kRows; ++r) left[r] = V::set(a[r][k + kElement]);
      INTACT_UNROLL("GCC unroll 8")
      for (int v = 0; v < kVectors; ++v) {
        const F<V> w = values(V::template shift_right<8 * kElement>(codes[v]), zero[v]) * scale[v];
        INTACT_UNROLL("GCC unroll 4")
        for (int r = 0; r < kRows; ++r) sums[r][v] = V::fma(left[r], w, sums[r][v]);
      }
      add_half<kElement + 1>(codes, values, k, count);
    }
  }

  // A half by way of memory: its weights, then its products.
  INTACT_INLINE void add_stored_half(const I<V> (&codes)[kVectors], const Codes& values, size_t k,
                                     size_t count) {
    alignas(64) float weights[4 * kVectors * V::kWidth];
    INTACT_UNROLL("GCC unroll 8")
    for (int v = 0; v < kVectors; ++v) {
      float* to = weights + static_cast<size_t>(v) * V::kWidth;
      const auto store = [&](F<V> value) INTACT_INLINE_BODY {
        V::store(to, value);
        to += kVectors * V::kWidth;
      };
      widen_half<V, 0>(values, codes[v], zero[v], scale[v], store);
    }
    keep_in_memory(weights);
    const float* from = weights;
    for (size_t element = 0; element < std::min<size_t>(count, 4); ++element) {
      F<V> left[kRows];
      for (int r = 0; r < kRows; ++r) left[r] = V::set(a[r][k + element]);
      INTACT_UNROLL("GCC unroll 8")
      for (int v = 0; v < kVectors; ++v, from += V::kWidth) {
        const F<V> w = V::load(from);
        INTACT_UNROLL("GCC unroll 4")
        for (int r = 0; r < kRows; ++r) sums[r][v] = V::fma(left[r], w, sums[r][v]);
      }
    }
  }

  INTACT_INLINE void add_next_half(const I<V> (&codes)[kVectors], const Codes& values, size_t k,
                                   size_t count) {
    if constexpr (kRows >= Codes::kStoredRows) {
      add_stored_half(codes, values, k, count);
    } else {
      add_half<0>(codes, values, k, count);
    }
  }

  INTACT_INLINE void add_unit(const Codes& values, size_t unit, size_t count) {
    I<V> codes[kVectors];
    const auto load = [&](size_t half) INTACT_INLINE_BODY {
      for (int v = 0; v < kVectors; ++v) codes[v] = V::load_int(codes_of(unit, v) + half * 64);
    };
    load(0);
    add_next_half(codes, values, unit * kBlockUnit, count);
    if (count <= 4) return;
    if (kBits != 4) {
      load(1);
    } else {
      for (int v = 0; v < kVectors; ++v) codes[v] = V::template shift_right<4>(codes[v]);
    }
    add_next_half(codes, values, unit * kBlockUnit + 4, count - 4);
  }

  INTACT_INLINE void run() {
    const Codes values(g);
    begin();
    const size_t whole = g.k / kBlockUnit;
    for (size_t unit = 0, block = 0; unit < g.units; ++block) {
      load_block(block);
      const size_t end = unit + g.piece < g.units ? unit + g.piece : g.units;
      for (; unit < end; ++unit) add_unit(values, unit, unit < whole ? kBlockUnit : g.k % kBlockUnit);
    }
    for (int v = 0; v < kVectors; ++v) {
      const size_t lanes = lanes_of(v);
      if (lanes == 0) return;
      for (int r = 0; r < kRows; ++r)
        vec::store<V>(g.y[row + static_cast<size_t>(r)] + column_of(v), sums[r][v], lanes);
    }
  }
};

template <class V, class Codes, int kBits, int kRows, int kPanels>
INTACT_APART void float_tiles(const BlockFloatRows& g, size_t& panel, size_t row) {
  for (; panel * kBlockPanel + (kPanels - 1) * kBlockPanel < g.columns; panel += kPanels) {
    FloatTile<V, Codes, kBits, kRows, kPanels> tile(g, panel, row);
    tile.run();
  }
}

// As many panels at once as leave a register for each sum, scale and code, and hide what a sum waits for.
template <class V, class Codes, int kBits, int kRows>
void float_rows_of(const BlockFloatRows& g, size_t row) {
  constexpr int kPanels = V::kWidth == 16 && kRows == 1 ? 4 : V::kWidth == 16 || kRows == 1 ? 2 : 1;
  size_t panel = 0;
  float_tiles<V, Codes, kBits, kRows, kPanels>(g, panel, row);
  if constexpr (kPanels > 1) float_tiles<V, Codes, kBits, kRows, 1>(g, panel, row);
}

template <class V, int kBits, class Codes = PlainCodes<V, kBits>>
void float_rows(const BlockFloatRows& g) {
  size_t row = 0;
  for (; row + 4 <= g.rows; row += 4) float_rows_of<V, Codes, kBits, 4>(g, row);
  for (; row + 2 <= g.rows; row += 2) float_rows_of<V, Codes, kBits, 2>(g, row);
  if (row < g.rows) float_rows_of<V, Codes, kBits, 1>(g, row);
}

template <class S>
void float_rows4(const BlockFloatRows& g) {
  using V = typename S::V;
  g.table != nullptr ? float_rows<V, 4, TableCodes<S>>(g) : float_rows<V, 4>(g);
}

using FloatRows = void (*)(const BlockFloatRows& g);

template <class S>
constexpr BlockGemmOps ops_of(FloatRows float_rows4, FloatRows float_rows8) {
  using V = typename S::V;
  return {kGroup,
          lay_rows<typename V::Narrow, kGroup, kGroup>,
          1,
          0,
          S::kPanels,
          kGroup,
          multiply<S, 4>,
          multiply<S, 5>,
          multiply<S, 6>,
          multiply<S, 8>,
          multiply<S, kBlockTable>,
          widen4<S>,
          widen<V, 8>,
          float_rows4,
          float_rows8,
          expand<V, 5>,
          expand<V, 6>,
          expand_table<S>,
          multiply_levels<V>};
}

}  // namespace intact::block_gemm
