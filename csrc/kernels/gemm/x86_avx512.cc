// vpdpbusd: four products and their sum in one instruction, exact. A tile holds up to 28 registers of sums.
// Layers of up to 8 channels have a kernel of their own (x86_avx512_narrow.h).
#include "kernels/gemm/gemm.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/gemm/x86_avx512_finish.h"
#include "kernels/gemm/x86_avx512_narrow.h"
#include "kernels/gemm/x86_avx512_whole.h"

namespace intact {
namespace {

constexpr int kWidest = 4;

template <int kRows, int kVectors, bool kFetch = false>
void sum_tile(const GemmSteps& s, const GemmTile& t) {
  constexpr int kWidth = kUnit * kVectors;
  __m512i sums[kRows][kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    sums[0][v] = _mm512_loadu_si512(t.correction + kUnit * v);
#pragma GCC unroll 16
    for (int r = 1; r < kRows; ++r) sums[r][v] = sums[0][v];
  }
  const int8_t* w = s.weights;
  [[maybe_unused]] const int8_t* next = t.next;
  for (int32_t run = 0; run < s.counts[0]; ++run) {
    const uint8_t* x[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = t.x[r] + t.x_offset + s.steps[2 * run];
    const ptrdiff_t end = ptrdiff_t{s.steps[2 * run + 1]} * 4;
    for (ptrdiff_t k = 0; k < end; k += 4) {
      __m512i weights[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) weights[v] = _mm512_loadu_si512(w + 64 * v);
      w += 64 * kVectors;
      if constexpr (kFetch) {
        _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
        _mm_prefetch(reinterpret_cast<const char*>(next + 64), _MM_HINT_T1);
        next += kFetched;
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        int32_t bytes;
        std::memcpy(&bytes, x[r] + k, 4);
        const __m512i four = _mm512_set1_epi32(bytes);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], four, weights[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_store_si512(t.sums + r * kWidth + kUnit * v, sums[r][v]);
  }
}

using SumTile = void (*)(const GemmSteps&, const GemmTile&);
template <int kVectors>
constexpr SumTile kTiles[] = {sum_tile<1, kVectors>, sum_tile<2, kVectors>, sum_tile<3, kVectors>,
                              sum_tile<4, kVectors>, sum_tile<5, kVectors>, sum_tile<6, kVectors>,
                              sum_tile<7, kVectors>};
constexpr SumTile kFetchingTiles[] = {sum_tile<1, 4, true>, sum_tile<2, 4, true>, sum_tile<3, 4, true>,
                                      sum_tile<4, 4, true>, sum_tile<5, 4, true>, sum_tile<6, 4, true>,
                                      sum_tile<7, 4, true>};
template <int kVectors>
constexpr SumTile kTallTiles[] = {sum_tile<8, kVectors>, sum_tile<9, kVectors>};
template <int kVectors>
constexpr SumTile kTallestTiles[] = {sum_tile<10, kVectors>, sum_tile<11, kVectors>, sum_tile<12, kVectors>};

template <int kVectors>
SumTile tile_of(int rows) {
  if (rows <= 7) return kTiles<kVectors>[rows - 1];
  if constexpr (kVectors <= 3) {
    if (rows <= 9) return kTallTiles<kVectors>[rows - 8];
  }
  if constexpr (kVectors <= 2) return kTallestTiles<kVectors>[rows - 10];
  return nullptr;
}

void sum(const GemmSteps& s, const GemmTile& t) {
  switch (s.width / kUnit) {
    case 1: return tile_of<1>(t.rows)(s, t);
    case 2: return tile_of<2>(t.rows)(s, t);
    case 3: return tile_of<3>(t.rows)(s, t);
    default: return (t.next == nullptr ? tile_of<4>(t.rows) : kFetchingTiles[t.rows - 1])(s, t);
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Checks on what is a register elsewhere take minutes to compile; sum and finish touch the same bytes.
constexpr decltype(GemmOps::whole) whole = nullptr, narrow_whole = nullptr;
#else
// Panels of at most so many bytes of weights stay in the first cache while tiles of few rows read them.
constexpr ptrdiff_t kNearBytes = 16 << 10;
// Larger ones than these come from the second cache: once for each tile, which therefore has one row more.
constexpr ptrdiff_t kFirstBytes = 32 << 10;

template <int kVectors>
struct Whole {
  using Tile = void (*)(const GemmSteps&, const GemmTile&, const Epilogue&, const GemmRows&, int, Fetch);
  static constexpr int kHalf = 12 / kVectors, kMost = std::min(28 / kVectors, 12);

  template <int... i>
  static Tile tile_of(int rows, std::integer_sequence<int, i...>) {
    static constexpr Tile kAll[] = {whole_tile<i + 1, kVectors>...};
    return kAll[rows - 1];
  }

  using Halves = int (*)(const GemmSteps&, const GemmTile&, const Epilogue&, const GemmRows&, Fetching&);
  static Halves halves_for(const Epilogue& e) {
    switch (known_form(e)) {
      case KnownForm::product: return whole_halves<kHalf, kVectors, KnownForm::product>;
      case KnownForm::divided: return whole_halves<kHalf, kVectors, KnownForm::divided>;
      default: return whole_halves<kHalf, kVectors, KnownForm::nothing>;
    }
  }

  static void run(const GemmSteps& s, const GemmTile& t, const Epilogue& e, const GemmRows& rows) {
    ptrdiff_t steps = 0;
    for (int32_t r = 0; r < s.counts[0]; ++r) steps += s.steps[2 * r + 1];
    const bool near = steps * s.width * 4 <= kNearBytes;
    const int most = steps * s.width * 4 <= kFirstBytes ? std::min(24 / kVectors, kMost) : kMost;
    Fetching fetching(s, t, steps);
    int row = 0;
    if (near && s.steps[1] >= kFewSteps) row = halves_for(e)(s, t, e, rows, fetching);
    const int left = t.rows - row, tiles = (left + most - 1) / most;
    for (int i = 0; i < tiles; ++i) {
      const int height = left / tiles + (i < left % tiles ? 1 : 0);
      const Tile tile = tile_of(height, std::make_integer_sequence<int, kMost>{});
      tile(s, t, e, rows, row, fetching.piece());
      row += height;
    }
  }
};

bool whole(const GemmSteps& s, const GemmTile& t, const Epilogue& e, const GemmRows& rows) {
  if (e.floats || e.function != nullptr || !e.bounded || rows.slopes != nullptr) return false;
  if (e.has_gain) return false;
  switch (s.width / kUnit) {
    case 1: Whole<1>::run(s, t, e, rows); break;
    case 2: Whole<2>::run(s, t, e, rows); break;
    case 3: Whole<3>::run(s, t, e, rows); break;
    default: Whole<4>::run(s, t, e, rows);
  }
  return true;
}

constexpr auto narrow_whole = narrow::whole;
#endif

}  // namespace

const GemmOps gemm_avx512vnni = {kUnit, kWidest, false, {10, 10, 9, 6}, 0, sum, finish, whole};
const GemmOps gemm_avx512narrow = {
    narrow::kUnit, 1, false, {narrow::kMostRows, 0, 0, 0}, 0, narrow::sum, narrow::finish, narrow_whole};

}  // namespace intact
#endif
