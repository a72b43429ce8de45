// vpdpbusd on 512-bit registers: one holds four elements of a panel's 16 outputs.
#include "kernels/block_gemm/float_rows.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {
namespace {

struct Vnni512 {
  using V = Avx512;
  static constexpr int kOffset = 0, kGroups = 3, kVectors = 1, kPanels = 3, kWholeGroups = 2;
  static constexpr bool kReadsHighBits = true;

  static constexpr size_t kLong = 16;  // units of a piece

  template <int kBits, int kRows, int kVectors, size_t kParts>
  static INTACT_INLINE void add(__m512i (&acc)[kRows][kVectors], const uint8_t* codes, size_t panel_bytes,
                                const int8_t* const (&x)[kParts], size_t units) {
    constexpr bool kIsRow = kRows * kVectors == 1;
    size_t k = 0;
    if constexpr (kBits == 5 || kBits == 6) {
      constexpr size_t kUnits = block_units(kBits);
      for (; k < 2 * units; k += 2 * kUnits, codes += kUnits * (kBits * 16)) {
        if (kIsRow) block_gemm::prefetch<(kUnits + 1) * 64>(codes);
        add_high<kBits, 0>(acc, codes, panel_bytes, x, k);
      }
      return;
    }
    if (kBits == 8 && kIsRow && units >= kLong) {
      // One register waits for each product: with four an LSTM of 400 states takes 9.6 instead of 11.2 ms
      // (Zen 4, 300 steps in two directions). In blocks of 32 the sums of four cost more than they save.
      __m512i more[3][kRows][kVectors] = {};
      for (; k + 4 <= 2 * units; k += 4, codes += kBits * 32) {
        add_fours<kBits, false>(acc, codes, panel_bytes, x, k);
        add_fours<kBits, true>(more[0], codes, panel_bytes, x, k + 1);
        add_fours<kBits, false>(more[1], codes + kBits * 16, panel_bytes, x, k + 2);
        add_fours<kBits, true>(more[2], codes + kBits * 16, panel_bytes, x, k + 3);
      }
      acc[0][0] = _mm512_add_epi32(_mm512_add_epi32(acc[0][0], more[0][0][0]),
                                   _mm512_add_epi32(more[1][0][0], more[2][0][0]));
    }
    for (; k < 2 * units; k += 2, codes += kBits * 16) {
      if (kIsRow && kBits == 4) block_gemm::prefetch<64>(codes);
      add_fours<kBits, false>(acc, codes, panel_bytes, x, k);
      add_fours<kBits, true>(acc, codes, panel_bytes, x, k + 1);
    }
  }

  static INTACT_INLINE __m512i load_table(const uint8_t* table) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  }
  static INTACT_INLINE __m512i look_up(__m512i table, __m512i places) {
    return _mm512_shuffle_epi8(table, places);
  }

  struct FloatTable {
    INTACT_INLINE explicit FloatTable(const float* table) : values(_mm512_loadu_ps(table)) {}
    INTACT_INLINE V::Floats operator()(__m512i codes) const { return {_mm512_permutexvar_ps(codes, values)}; }
    __m512 values;
  };

  // Places in a table: one panel's.
  template <int kRows, size_t kParts>
  static INTACT_INLINE void add_table(__m512i (&acc)[kRows][1], const uint8_t* codes, const uint8_t* table,
                                      const int8_t* const (&x)[kParts], size_t units) {
    const __m512i values = load_table(table), low = _mm512_set1_epi8(15);
    for (size_t k = 0; k < 2 * units; k += 2, codes += 64) {
      if (kRows == 1) block_gemm::prefetch<64>(codes);
      const __m512i places = V::load_int(codes);
      const __m512i first[1] = {look_up(values, _mm512_and_si512(places, low))};
      const __m512i second[1] = {look_up(values, _mm512_and_si512(_mm512_srli_epi16(places, 4), low))};
      add_rows(acc, first, x, k);
      add_rows(acc, second, x, k + 1);
    }
  }

  // Products of the fours of a group of codes of 5 or 6 bits, from kHalf on.
  template <int kBits, int kHalf, int kRows, int kVectors, size_t kParts>
  static INTACT_INLINE void add_high(__m512i (&acc)[kRows][kVectors], const uint8_t* codes,
                                     size_t panel_bytes, const int8_t* const (&x)[kParts], size_t k) {
    if constexpr (kHalf < 2 * static_cast<int>(block_units(kBits))) {
      constexpr int kEach = kBits - 4, kShift = 4 - kHalf * kEach;
      const __m512i high_bits = _mm512_set1_epi8(((1 << kEach) - 1) << 4);
      __m512i fours[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        const uint8_t* const from = codes + static_cast<size_t>(v) * panel_bytes;
        __m512i low = V::load_int(from + 64 + kHalf / 2 * 64), high = V::load_int(from);
        if (kHalf % 2 == 1) low = _mm512_srli_epi16(low, 4);
        if (kShift > 0) high = _mm512_slli_epi16(high, kShift > 0 ? kShift : 0);
        if (kShift < 0) high = _mm512_srli_epi16(high, kShift < 0 ? -kShift : 0);
        low = _mm512_and_si512(low, _mm512_set1_epi8(15));
        fours[v] = _mm512_ternarylogic_epi32(low, high, high_bits, 0xf8);  // low | (high & high_bits)
      }
      add_rows(acc, fours, x, k + kHalf);
      add_high<kBits, kHalf + 1>(acc, codes, panel_bytes, x, k);
    }
  }

  // Products of the first or the second fours of a unit.
  template <int kBits, bool kIsSecond, int kRows, int kVectors, size_t kParts>
  static INTACT_INLINE void add_fours(__m512i (&acc)[kRows][kVectors], const uint8_t* codes,
                                      size_t panel_bytes, const int8_t* const (&x)[kParts], size_t k) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i fours[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const uint8_t* const from = codes + static_cast<size_t>(v) * panel_bytes;
      fours[v] = V::load_int(from + (kBits == 8 && kIsSecond ? 64 : 0));
      if (kBits == 4 && kIsSecond) fours[v] = _mm512_srli_epi16(fours[v], 4);
      if (kBits == 4) fours[v] = _mm512_and_si512(fours[v], low);
    }
    add_rows(acc, fours, x, k);
  }

  template <int kRows, int kVectors, size_t kParts>
  static INTACT_INLINE void add_rows(__m512i (&acc)[kRows][kVectors], const __m512i (&fours)[kVectors],
                                     const int8_t* const (&x)[kParts], size_t k) {
    INTACT_UNROLL("GCC unroll 12")
    for (int r = 0; r < kRows; ++r) {
      const __m512i row = _mm512_set1_epi32(block_gemm::four(x[r / 4], k, r % 4));
      INTACT_UNROLL("GCC unroll 4")
      for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_dpbusd_epi32(acc[r][v], fours[v], row);
    }
  }
};

// What codes of 4 bits are, less their zero where they share one; W: BlockFloats or BlockFloatRows.
template <class W>
INTACT_INLINE __m512 values_of(const W& w) {
  if (w.table != nullptr) return _mm512_loadu_ps(w.table);
  const __m512 codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_sub_ps(codes, _mm512_set1_ps(w.zeros == nullptr ? static_cast<float>(w.zero) : 0.0f));
}

// A permutation reads the lowest 4 bits of each output alone, so that all codes of 4 bits are looked up.
struct Codes4 {
  static constexpr int kStoredRows = 5;  // none
  template <class W>
  INTACT_INLINE explicit Codes4(const W& w) : table(values_of(w)), has_zeros(w.zeros != nullptr) {}
  INTACT_INLINE Avx512::Floats operator()(__m512i codes, Avx512::Floats zero) const {
    const __m512 value = _mm512_permutexvar_ps(codes, table);
    return {has_zeros ? _mm512_sub_ps(value, zero.v) : value};
  }
  __m512 table;
  bool has_zeros;
};

constexpr BlockGemmOps with_table(BlockGemmOps ops) {
  ops.widen4 = block_gemm::widen4_avx512;
  ops.widen8 = block_gemm::widen8_avx512;
  return ops;
}

}  // namespace

// 31 instructions for a unit where the general form has 47.
void block_gemm::widen4_avx512(const BlockFloats& w) {
  if (w.zeros != nullptr || w.minima.values != nullptr || w.width < kBlockPanel) {
    return block_gemm::widen<Avx512, 4, Codes4>(w);
  }
  const __m512 table = values_of(w);
  float* to = w.to;
  const uint8_t* from = w.codes;
  for (size_t unit = w.from; unit < w.from + w.units; ++unit, from += 64) {
    const __m512 scale = block_gemm::load_reals<Avx512>(w.scales, unit / w.piece * kBlockPanel).v;
    const __m512i codes = _mm512_loadu_si512(from);
    const auto store = [&](__m512i code) INTACT_INLINE_BODY {
      _mm512_storeu_ps(to, _mm512_mul_ps(_mm512_permutexvar_ps(code, table), scale));
      to += w.width;
    };
    store(codes);
    store(_mm512_srli_epi32(codes, 8));
    store(_mm512_srli_epi32(codes, 16));
    store(_mm512_srli_epi32(codes, 24));
    store(_mm512_srli_epi32(codes, 4));
    store(_mm512_srli_epi32(codes, 12));
    store(_mm512_srli_epi32(codes, 20));
    store(_mm512_srli_epi32(codes, 28));
  }
}

void block_gemm::expand_table_avx512(const uint8_t* codes, size_t units, const uint8_t* table, uint8_t* to) {
  expand_table<Vnni512>(codes, units, table, to);
}
void block_gemm::widen8_avx512(const BlockFloats& w) { widen<Avx512, 8>(w); }
void block_gemm::float_rows4_avx512(const BlockFloatRows& g) { float_rows<Avx512, 4, Codes4>(g); }
void block_gemm::float_rows8_avx512(const BlockFloatRows& g) { float_rows<Avx512, 8>(g); }

const BlockGemmOps block_gemm_vnni =
    with_table(block_gemm::ops_of<Vnni512>(block_gemm::float_rows4_avx512, block_gemm::float_rows8_avx512));

}  // namespace intact
#endif
