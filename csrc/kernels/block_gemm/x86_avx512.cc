// vpdpbusd on 512-bit registers: one holds four elements of a panel's 16 outputs.
#include "kernels/block_gemm/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {
namespace {

struct Vnni512 {
  using V = Avx512;
  static constexpr int kOffset = 0, kGroups = 3, kVectors = 1, kPanels = 3;

  static constexpr size_t kLong = 16;  // units of a piece

  template <int kBits, int kRows, int kVectors, size_t kParts>
  static INTACT_INLINE void add(__m512i (&acc)[kRows][kVectors], const uint8_t* codes, size_t panel_bytes,
                                const int8_t* const (&x)[kParts], size_t units) {
    size_t k = 0;
    if (kBits == 8 && kRows * kVectors == 1 && units >= kLong) {
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
      add_fours<kBits, false>(acc, codes, panel_bytes, x, k);
      add_fours<kBits, true>(acc, codes, panel_bytes, x, k + 1);
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
    INTACT_UNROLL("GCC unroll 12")
    for (int r = 0; r < kRows; ++r) {
      const __m512i row = _mm512_set1_epi32(block_gemm::four(x[r / 4], k, r % 4));
      INTACT_UNROLL("GCC unroll 4")
      for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_dpbusd_epi32(acc[r][v], fours[v], row);
    }
  }
};

// A table holds what codes less their zero are: a permutation reads the lowest 4 bits of each output alone.
// That is 31 instructions for a unit where the general form has 47.
void widen4(const BlockFloats& w) {
  if (w.zeros != nullptr || w.minima.values != nullptr || w.width < kBlockPanel) {
    return block_gemm::widen<Avx512, 4>(w);
  }
  const __m512 codes_of_table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512 table = _mm512_sub_ps(codes_of_table, _mm512_set1_ps(static_cast<float>(w.zero)));
  float* to = w.to;
  for (size_t unit = w.from; unit < w.from + w.units; ++unit) {
    const __m512 scale = block_gemm::load_reals<Avx512>(w.scales, unit / w.piece * kBlockPanel).v;
    const __m512i codes = _mm512_loadu_si512(w.codes + unit * 64);
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

constexpr BlockGemmOps with_table(BlockGemmOps ops) {
  ops.widen4 = widen4;
  return ops;
}

}  // namespace

const BlockGemmOps block_gemm_vnni = with_table(block_gemm::ops_of<Vnni512>());

}  // namespace intact
#endif
