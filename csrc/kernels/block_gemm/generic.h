// Tiles of rows by one panel, for every instruction set that sums fours of bytes. Such a set is a type S:
//   S::V                    registers (base/vector/vector.h)
//   S::kOffset              what its codes of 8 bits are less than those in memory
//   S::kGroups, kVectors    of the tile of many rows in a panel
//   S::kPanels              panels of a tile of one group; 1: no such tile. Panels that are left over take
//                           the other one
//   S::kWholeGroups         groups of a tile of so many panels whose rows are one piece of codes of 8 bits
//   S::add<kBits>(acc, codes, panel_bytes, x, units)
//                           adds products of `units` units to acc[rows][vectors]; codes begin at a panel's
//                           registers, which those of the next panel follow `panel_bytes` behind; x begins at
//                           the groups' rows
//   S::kReadsHighBits       whether add takes 5 and 6 bits, and S::add_table places in a table; else codes
//                           are expanded group by group
//   S::load_table(table), S::look_up(table, places)
//                           a register's bytes, each below 16, as codes of a table
//   S::FloatTable(table), operator()(codes)
//                           the float in a table of 16 for the lowest 4 bits of each lane
#pragma once

#include <algorithm>
#include <cstring>

#include "base/vector/vector.h"
#include "kernels/block_gemm/block_gemm.h"

namespace intact::block_gemm {

using vec::F;
using vec::I;

constexpr size_t kGroup = 4;

// kWidth numbers of blocks from `at` on.
template <class V>
INTACT_INLINE F<V> load_reals(const BlockReals& reals, size_t at) {
  if (reals.is_half) return V::from_f16(static_cast<const uint16_t*>(reals.values) + at);
  return V::load(static_cast<const float*>(reals.values) + at);
}

// Fetches codes of one row two pages further on, which the machine itself does not fetch ahead. From memory a
// row of 8192 by 8192 weights of 4 bits takes 1.2 instead of 2.3 ms, from the third cache it takes 5% longer
// (Zen 4). With 8 bits it costs more than it saves.
template <size_t kBytes>
INTACT_INLINE void prefetch([[maybe_unused]] const uint8_t* codes) {
#if defined(__GNUC__) || defined(__clang__)
  for (size_t i = 0; i < kBytes; i += 64) __builtin_prefetch(codes + 8192 + i, 0, 2);
#endif
}
INTACT_INLINE void prefetch([[maybe_unused]] const uint8_t* codes, [[maybe_unused]] size_t bytes) {
#if defined(__GNUC__) || defined(__clang__)
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(codes + i, 0, 2);
#endif
}

// Of register v of a tile: whole panels before it, and outputs of its own panel.
template <class V>
constexpr size_t panel_of(int v) {
  return static_cast<size_t>(v) * V::kWidth / kBlockPanel;
}
template <class V>
constexpr size_t lane_of(int v) {
  return static_cast<size_t>(v) * V::kWidth % kBlockPanel;
}

// Of the registers of a tile, numbers of one block after the other.
template <class V, bool kHasLevels>
class Numbers {
 public:
  INTACT_INLINE Numbers(const BlockReals& reals, size_t blocks, size_t panel, size_t lane)
      : reals_(reals), at_(panel * blocks * kBlockPanel + lane), pitch_(blocks * kBlockPanel) {
    if (!has_levels()) return;
    super_pitch_ = blocks / reals.each * kBlockPanel;
    super_ = panel * super_pitch_ + lane;
    left_ = reals.each;
  }

  INTACT_INLINE F<V> load(int v) const {
    const size_t at = at_ + panel_of<V>(v) * pitch_ + lane_of<V>(v);
    if (!has_levels()) return load_reals<V>(reals_, at);
    const F<V> coarse = load_reals<V>(reals_, super_ + panel_of<V>(v) * super_pitch_ + lane_of<V>(v));
    return V::to_float(V::load_s8(reinterpret_cast<const uint8_t*>(reals_.fine + at))) * coarse;
  }

  INTACT_INLINE void next() {
    at_ += kBlockPanel;
    if (!has_levels() || --left_ != 0) return;
    super_ += kBlockPanel;
    left_ = reals_.each;
  }

 private:
  INTACT_INLINE bool has_levels() const { return kHasLevels && reals_.fine != nullptr; }

  const BlockReals reals_;
  size_t at_, pitch_, super_ = 0, super_pitch_ = 0, left_ = 0;
};

// Codes of 5 or 6 bits of a group, of the lanes from `codes` on, as codes of 8 bits: halves from kHalf on.
template <class V, int kBits, int kHalf = 0>
INTACT_INLINE void expand_group(const uint8_t* codes, uint8_t* to) {
  constexpr int kEach = kBits - 4, kShift = 4 - kHalf * kEach;
  if constexpr (kHalf < 2 * static_cast<int>(block_units(kBits))) {
    I<V> low = V::load_int(codes + 64 + kHalf / 2 * 64), high = V::load_int(codes);
    if constexpr (kHalf % 2 == 1) low = V::template shift_right<4>(low);
    if constexpr (kShift > 0) high = V::template shift_left<kShift>(high);
    if constexpr (kShift < 0) high = V::template shift_right<-kShift>(high);
    low = V::and_int(low, V::set_int(0x0f0f0f0f));
    high = V::and_int(high, V::set_int(((1 << kEach) - 1) * 0x10101010));
    V::store_int(to + kHalf * 64, V::or_int(low, high));
    expand_group<V, kBits, kHalf + 1>(codes, to);
  }
}

template <class V, int kBits>
void expand(const uint8_t* codes, size_t units, uint8_t* to) {
  for (size_t unit = 0; unit < units; unit += block_units(kBits)) {
    for (size_t lane = 0; lane < kBlockPanel; lane += V::kWidth) {
      expand_group<V, kBits>(codes + unit * (kBits * 16) + lane * 4, to + unit * 128 + lane * 4);
    }
  }
}

// A unit's places in a table, of the lanes from `codes` on, as codes of 8 bits.
template <class S, class Table>
INTACT_INLINE void expand_places(const Table& table, const uint8_t* codes, uint8_t* to) {
  using V = typename S::V;
  const I<V> places = V::load_int(codes), low = V::set_int(0x0f0f0f0f);
  V::store_int(to, S::look_up(table, V::and_int(places, low)));
  V::store_int(to + 64, S::look_up(table, V::and_int(V::template shift_right<4>(places), low)));
}

template <class S>
void expand_table(const uint8_t* codes, size_t units, const uint8_t* table, uint8_t* to) {
  const auto values = S::load_table(table);
  for (size_t unit = 0; unit < units; ++unit, codes += 64, to += 128) {
    for (size_t lane = 0; lane < kBlockPanel; lane += S::V::kWidth)
      expand_places<S>(values, codes + lane * 4, to + lane * 4);
  }
}

// Four codes of a row of a group, as a number.
INTACT_INLINE int32_t four(const int8_t* group, size_t four, int row) {
  int32_t bytes;
  std::memcpy(&bytes, group + (four * kGroup + static_cast<size_t>(row)) * 4, 4);
  return bytes;
}

// Products of kRows rows from `group` on by kVectors registers of a panel from `lane` on, or of several whole
// panels. One row is the first of its group, more are whole groups.
template <class S, int kBits, int kRows, int kVectors, bool kIsWhole = false>
struct Tile {
  using V = typename S::V;
  static constexpr int kMiddleBits = kBits == kBlockTable ? 7 : kBits - 1, kParts = (kRows + 3) / 4;
  static constexpr size_t kUnit = block_unit_bytes(kBits);
  static constexpr bool kIsShifted = kBits != 4 && S::kOffset != 0;  // half of the range of bytes is 0 then

  I<V> acc[kRows][kVectors];

  template <class T>
  static INTACT_INLINE T of_row(const T* values, size_t each, size_t group, size_t at, int r) {
    const auto row = static_cast<size_t>(r);
    return values[((group + row / kGroup) * each + at) * kGroup + row % kGroup];
  }

  // Where the register's numbers are among those of blocks of weights.
  static INTACT_INLINE size_t value_of(const BlockGemm& g, int v) {
    return panel_of<V>(v) * g.w_blocks * kBlockPanel + lane_of<V>(v);
  }

  INTACT_INLINE void begin(const BlockGemm& g, size_t group, size_t piece, size_t at) {
    if (g.zeros == nullptr) {
      const int32_t zero = g.zero - (kIsShifted ? S::kOffset : 0);
      INTACT_UNROLL("GCC unroll 12")
      for (int r = 0; r < kRows; ++r) {
        I<V> first = V::set_int(0);
        if (zero != 0) {
          const I<V> negative = V::set_int(of_row(g.negatives, g.pieces, group, piece, r));
          first = zero == 1 << kMiddleBits ? V::template shift_left<kMiddleBits>(negative)
                                           : V::multiply_int(V::set_int(zero), negative);
        }
        for (int v = 0; v < kVectors; ++v) acc[r][v] = first;
      }
      return;
    }
    for (int v = 0; v < kVectors; ++v) {
      I<V> zero = V::load_u8(g.zeros + at + value_of(g, v));
      if (kIsShifted) zero = V::sub_int(zero, V::set_int(S::kOffset));
      INTACT_UNROLL("GCC unroll 12")
      for (int r = 0; r < kRows; ++r) {
        acc[r][v] = V::multiply_int(zero, V::set_int(of_row(g.negatives, g.pieces, group, piece, r)));
      }
    }
  }

  // Of a few rows codes are what they are in memory: a step has expanded them for more.
  static INTACT_INLINE void add(const BlockGemm& g, I<V> (&acc)[kRows][kVectors], const uint8_t* codes,
                                size_t panel_bytes, const int8_t* const (&x)[kParts], size_t units) {
    if constexpr (kBits == kBlockTable && S::kReadsHighBits) {
      S::add_table(acc, codes, g.table, x, units);
    } else if constexpr (kBits == kBlockTable) {
      const auto table = S::load_table(g.table);
      const int8_t* rows[kParts];
      for (int i = 0; i < kParts; ++i) rows[i] = x[i];
      for (size_t unit = 0; unit < units; ++unit, codes += kUnit) {
        if (kRows == 1) prefetch<64>(codes);
        alignas(64) uint8_t bytes[128];
        for (int v = 0; v < kVectors; ++v)
          expand_places<S>(table, codes + lane_of<V>(v) * 4, bytes + lane_of<V>(v) * 4);
        S::template add<8>(acc, bytes, sizeof bytes, rows, 1);
        for (const int8_t*& row : rows) row += kBlockUnit * kGroup;
      }
    } else if constexpr (kBits == 4 || kBits == 8 || S::kReadsHighBits) {
      S::template add<kBits>(acc, codes, panel_bytes, x, units);
    } else {
      constexpr size_t kUnits = block_units(kBits);
      const int8_t* rows[kParts];
      for (int i = 0; i < kParts; ++i) rows[i] = x[i];
      for (size_t unit = 0; unit < units; unit += kUnits, codes += kUnits * (kBits * 16)) {
        if (kRows == 1) prefetch<(kUnits + 1) * 64>(codes);
        alignas(64) uint8_t bytes[kUnits * 128];
        for (int v = 0; v < kVectors; ++v)
          expand_group<V, kBits>(codes + lane_of<V>(v) * 4, bytes + lane_of<V>(v) * 4);
        S::template add<8>(acc, bytes, sizeof bytes, rows, kUnits);
        for (const int8_t*& row : rows) row += kUnits * kBlockUnit * kGroup;
      }
    }
  }

  // Adds a piece to what `first` says of a register of outputs, of all rows, and hands it to `sink`.
  template <class Values, class First, class Sink>
  INTACT_INLINE void finish(const BlockGemm& g, size_t group, size_t piece, size_t x_block,
                            const Values& all_scales, const Values& all_minima, const int32_t* sums,
                            const First& first, const Sink& sink) {
    INTACT_UNROLL("GCC unroll 4")
    for (int v = 0; v < kVectors; ++v) {
      const F<V> scales = all_scales.load(v);
      if (g.x_zeros != nullptr) {
        I<V> sum = V::load_int(sums + panel_of<V>(v) * g.pieces * kBlockPanel + lane_of<V>(v));
        if (kIsShifted)
          sum = V::sub_int(sum, V::set_int(S::kOffset * static_cast<int32_t>(elements_of_piece(g, piece))));
        INTACT_UNROLL("GCC unroll 12")
        for (int r = 0; r < kRows; ++r) {
          const I<V> zero = V::set_int(of_row(g.x_zeros, g.x_blocks, group, x_block, r));
          acc[r][v] = V::sub_int(acc[r][v], V::multiply_int(zero, sum));
        }
      }
      F<V> out[kRows];
      INTACT_UNROLL("GCC unroll 12")
      for (int r = 0; r < kRows; ++r) {
        const F<V> scale = V::set(of_row(g.x_scales, g.x_blocks, group, x_block, r));
        out[r] = first(v, r) + V::to_float(acc[r][v]) * (scale * scales);
      }
      if (g.minima.values != nullptr) {
        const F<V> minima = all_minima.load(v);
        INTACT_UNROLL("GCC unroll 12")
        for (int r = 0; r < kRows; ++r) {
          const F<V> negative = V::to_float(V::set_int(of_row(g.negatives, g.pieces, group, piece, r)));
          const F<V> scale = V::set(of_row(g.x_scales, g.x_blocks, group, x_block, r));
          out[r] = out[r] - negative * (scale * minima);
        }
      }
      sink(v, out);
    }
  }

  // Of one piece a sum ends before its output begins, so that a tile may have as many of either as there are
  // registers: each code of a panel is then loaded half as often. 1.08x on Zen 4.
  INTACT_INLINE void run_whole(const BlockGemm& g, size_t panel, size_t group, size_t lane) {
    const size_t panel_bytes = g.units * kUnit, at = panel * kBlockPanel + lane;
    const int8_t* x[kParts];
    for (size_t i = 0; i < kParts; ++i) x[i] = g.x + (group + i) * g.units * (kBlockUnit * kGroup);
    const Numbers<V, false> scales(g.scales, 1, panel, lane), minima(g.minima, 1, panel, lane);
    begin(g, group, 0, at);
    add(g, acc, g.codes + panel * panel_bytes + lane * 4, panel_bytes, x, g.units);
    finish(
        g, group, 0, 0, scales, minima, g.sums + at, [](int, int) INTACT_INLINE_BODY { return V::set(0.0f); },
        [&](int v, const F<V>(&out)[kRows])
            INTACT_INLINE_BODY { store(g, at + static_cast<size_t>(v) * V::kWidth, group * kGroup, out); });
  }

  INTACT_INLINE void run(const BlockGemm& g, size_t panel, size_t group, size_t lane) {
    if constexpr (kIsWhole) return run_whole(g, panel, group, lane);
    F<V> y[kVectors][kRows];
    INTACT_UNROLL("GCC unroll 4")
    for (int v = 0; v < kVectors; ++v) {
      INTACT_UNROLL("GCC unroll 12")
      for (int r = 0; r < kRows; ++r) y[v][r] = V::set(0.0f);
    }
    const size_t panel_bytes = g.units * kUnit;
    const uint8_t* codes = g.codes + panel * panel_bytes + lane * 4;
    const int8_t* x[kParts];
    constexpr size_t kUnitBytes = kBlockUnit * kGroup;
    for (int i = 0; i < kParts; ++i) x[i] = g.x + (group + static_cast<size_t>(i)) * g.units * kUnitBytes;
    Numbers<V, kRows <= kGroup> scales(g.scales, g.w_blocks, panel, lane);
    Numbers<V, kRows <= kGroup> minima(g.minima, g.w_blocks, panel, lane);
    size_t x_block = 0, at = panel * g.w_blocks * kBlockPanel + lane;
    size_t x_left = g.x_every, w_left = g.w_every;
    for (size_t p = 0; p < g.pieces; ++p) {
      const size_t units = p + 1 < g.pieces ? g.piece : g.units - p * g.piece;
      begin(g, group, p, at);
      add(g, acc, codes, panel_bytes, x, units);
      codes += units * kUnit;
      for (int i = 0; i < kParts; ++i) x[i] += units * kUnitBytes;
      finish(
          g, group, p, x_block, scales, minima, g.sums + (panel * g.pieces + p) * kBlockPanel + lane,
          [&](int v, int r) INTACT_INLINE_BODY { return y[v][r]; },
          [&](int v, const F<V>(&out)[kRows]) INTACT_INLINE_BODY {
            INTACT_UNROLL("GCC unroll 12")
            for (int r = 0; r < kRows; ++r) y[v][r] = out[r];
          });
      if (--x_left == 0) {
        ++x_block;
        x_left = g.x_every;
      }
      if (--w_left == 0) {
        at += kBlockPanel;
        scales.next();
        minima.next();
        w_left = g.w_every;
      }
    }
    INTACT_UNROLL("GCC unroll 4")
    for (int v = 0; v < kVectors; ++v)
      store(g, panel * kBlockPanel + lane + static_cast<size_t>(v) * V::kWidth, group * kGroup, y[v]);
  }

  // Rows of a register of outputs, from `column` on.
  static INTACT_INLINE void store(const BlockGemm& g, size_t column, size_t row, const F<V> (&out)[kRows]) {
    if (column >= g.columns) return;
    const size_t n = g.columns - column < V::kWidth ? g.columns - column : V::kWidth;
    const bool has_bias = g.bias != nullptr;
    const F<V> bias = has_bias ? V::load(g.bias + column) : V::set(0.0f);
    float* to = g.y + row * g.y_pitch + column;
    INTACT_UNROLL("GCC unroll 12")
    for (int r = 0; r < kRows; ++r, to += g.y_pitch) {
      if (kRows > 1 && row + static_cast<size_t>(r) >= g.rows) return;
      vec::store<V>(to, has_bias ? out[r] + bias : out[r], n);
    }
  }
};

// From `row` on, as many groups as there are whole tiles for; the last one may be cut.
template <class S, int kBits, int kRows, int kVectors, bool kIsWhole = false>
INTACT_APART void tiles(const BlockGemm& g, size_t panel, size_t& row, size_t end) {
  // Weights of a whole model come from memory: each tile fetches its share of the next panels' ahead. 1.02x.
  const size_t bytes = g.units * block_unit_bytes(kBits), all = panel_of<typename S::V>(kVectors) * bytes;
  const uint8_t* next = g.codes + panel * bytes + all;
  for (; row + kRows <= end; row += kRows) {
    if constexpr (kIsWhole) {
      prefetch(next, all * kRows / end);
      next += all * kRows / end;
    }
    for (size_t lane = 0; lane < kBlockPanel; lane += kVectors * S::V::kWidth) {
      Tile<S, kBits, kRows, kVectors, kIsWhole> tile;
      tile.run(g, panel, row / kGroup, lane);
    }
  }
}

// From `panel` on, as many panels as there are whole tiles for, by groups of rows, whose codes are broadcast
// once for all panels of a tile.
template <class S, int kBits>
void panel_tiles(const BlockGemm& g, size_t& panel, size_t panels, size_t end) {
  constexpr int kAll = S::kPanels * static_cast<int>(kBlockPanel / S::V::kWidth);
  for (; panel + S::kPanels <= panels; panel += S::kPanels) {
    size_t row = 0;
    if constexpr (kBits == 8) {
      if (g.pieces == 1) tiles<S, kBits, 4 * S::kWholeGroups, kAll, true>(g, panel, row, end);
    }
    tiles<S, kBits, 4, kAll>(g, panel, row, end);
  }
}

template <class S, int kBits>
void multiply(const BlockGemm& g) {
  const size_t end = (g.rows + kGroup - 1) / kGroup * kGroup;
  const size_t panels = (g.columns + kBlockPanel - 1) / kBlockPanel;
  size_t panel = 0;
  if (g.rows == 1) {
    // Weights of a whole model come from memory. One panel at a time is read at 23 GB/s, four short streams
    // at 15 (Zen 4, 576 x 1536). From the cache four would be a tenth faster.
    constexpr int kAll = static_cast<int>(kBlockPanel / S::V::kWidth);
    for (; panel < panels; ++panel) {
      size_t row = 0;
      tiles<S, kBits, 1, kAll>(g, panel, row, 1);
    }
    return;
  }
  if constexpr (S::kPanels > 1 && kBits != kBlockTable) panel_tiles<S, kBits>(g, panel, panels, end);
  for (; panel < panels; ++panel) {
    size_t row = 0;
    if constexpr (S::kGroups > 1 && (kBits == 4 || kBits == 8))
      tiles<S, kBits, 4 * S::kGroups, S::kVectors>(g, panel, row, end);
    tiles<S, kBits, 4, S::kVectors>(g, panel, row, end);
  }
}

// The float of a code in the lowest bits of each lane, less its zero; W: BlockFloats or BlockFloatRows.
template <class V, int kBits>
struct PlainCodes {
  static constexpr int kStoredRows = 5;  // none
  template <class W>
  INTACT_INLINE explicit PlainCodes(const W&) {}
  INTACT_INLINE F<V> operator()(I<V> codes, F<V> zero) const {
    return V::to_float(V::and_int(codes, V::set_int((1 << kBits) - 1))) - zero;
  }
};

template <class S>
struct TableCodes {
  using V = typename S::V;
  // Of a tile from which on weights go by way of memory: beside a table 8 sums leave too few registers. 4
  // rows take 650 instead of 1040 us (AVX2, 2048 x 2048).
  static constexpr int kStoredRows = 4;
  template <class W>
  INTACT_INLINE explicit TableCodes(const W& w) : table(w.table) {}
  INTACT_INLINE F<V> operator()(I<V> codes, F<V>) const { return table(codes); }
  typename S::FloatTable table;
};

// The elements of a half of a unit from kElement on, each the lowest bits of its output's four bytes.
template <class V, int kElement, class Codes, class Store>
INTACT_INLINE void widen_half(const Codes& values, const I<V> fours, const F<V> zero, const F<V> scale,
                              const Store& store) {
  if constexpr (kElement < 4) {
    store(values(fours, zero) * scale);
    widen_half<V, kElement + 1>(values, V::template shift_right<8>(fours), zero, scale, store);
  }
}

// Outputs [from, end) for panels of another instruction set's products.
INTACT_APART static void scatter(const float* values, size_t from, size_t end, const BlockFloats& w,
                                 float* to) {
  for (size_t output = from; output < end; ++output)
    to[output / w.width * w.pitch + output % w.width] = values[output - from];
}

template <class V, int kBits, class Codes = PlainCodes<V, kBits>>
void widen(const BlockFloats& w) {
  constexpr size_t kUnitBytes = kBits * 16, kWidth = V::kWidth;
  const Codes values(w);
  for (size_t lane = 0; lane < kBlockPanel; lane += kWidth) {
    float* to = w.to + (w.width < kWidth ? 0 : lane / w.width * w.pitch + lane % w.width);
    const auto store = [&](F<V> values) INTACT_INLINE_BODY {
      if (w.width >= kWidth) {
        vec::store<V>(to, values, kWidth);
      } else {
        float apart[kWidth];
        vec::store<V>(apart, values, kWidth);
        scatter(apart, lane, lane + kWidth, w, to);
      }
      to += w.width;
    };
    const uint8_t* codes = w.codes + lane * 4;
    for (size_t unit = w.from; unit < w.from + w.units;) {
      const size_t block = unit / w.piece, at = block * kBlockPanel + lane;
      const size_t end = std::min(w.from + w.units, (block + 1) * w.piece);
      const F<V> scale = load_reals<V>(w.scales, at);
      const F<V> zero =
          w.zeros == nullptr ? V::set(static_cast<float>(w.zero)) : V::to_float(V::load_u8(w.zeros + at));
      const bool has_minima = w.minima.values != nullptr;
      const F<V> least = has_minima ? load_reals<V>(w.minima, at) : V::set(0.0f);
      const auto add = [&](F<V> values) INTACT_INLINE_BODY { store(has_minima ? values + least : values); };
      for (; unit < end; ++unit, codes += kUnitBytes) {
        const I<V> first = V::load_int(codes);
        widen_half<V, 0>(values, first, zero, scale, add);
        const I<V> second =
            kBits == 4 ? V::template shift_right<4>(first) : V::load_int(codes + kUnitBytes - 64);
        widen_half<V, 0>(values, second, zero, scale, add);
      }
    }
  }
}

template <class S>
void widen4(const BlockFloats& w) {
  using V = typename S::V;
  w.table != nullptr ? widen<V, 4, TableCodes<S>>(w) : widen<V, 4>(w);
}

template <class V>
void multiply_levels(const BlockReals& reals, size_t from, size_t blocks, float* to) {
  for (size_t lane = 0; lane < kBlockPanel; lane += V::kWidth) {
    const auto* fine = reinterpret_cast<const uint8_t*>(reals.fine) + from * kBlockPanel + lane;
    float* y = to + lane;
    size_t super = from / reals.each, left = reals.each - from % reals.each;
    for (size_t b = 0; b < blocks; left = reals.each, ++super) {
      const F<V> coarse = load_reals<V>(reals, super * kBlockPanel + lane);
      for (const size_t end = std::min(b + left, blocks); b < end; ++b) {
        V::store(y, V::to_float(V::load_s8(fine)) * coarse);
        fine += kBlockPanel;
        y += kBlockPanel;
      }
    }
  }
}

}  // namespace intact::block_gemm
