// tdpbssd: 16 rows by the 16 outputs of a panel by up to 64 elements in one instruction. A panel becomes
// signed bytes once, then all rows pass by; to scale the sums of a piece is vectors' work.
#include "base/inline.h"
#include "kernels/block_gemm/float_rows.h"

#if INTACT_ARCH_X86 && defined(INTACT_AMX)
#include <immintrin.h>

#include "base/vector/avx512.h"

namespace intact {
namespace {

constexpr size_t kGroup = 16, kDeep = 8;  // rows; units of a whole tile

struct alignas(64) TileShapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// Tile 0: sums. 1 and 2: rows and panel of whole tiles; 3 and 4: of what is left of a piece, 5 and 6: of the
// last piece.
TileShapes shapes_of(size_t rest, size_t last) {
  TileShapes t{};
  t.palette = 1;
  const auto set = [&](int tile, size_t rows, size_t bytes) {
    t.rows[tile] = static_cast<uint8_t>(rows);
    t.row_bytes[tile] = static_cast<uint16_t>(bytes);
  };
  set(0, kGroup, 64);
  set(1, kGroup, 64);
  set(2, 16, 64);
  if (rest > 0) {
    set(3, kGroup, rest * kBlockUnit);
    set(4, rest * 2, 64);
  }
  if (last > 0) {
    set(5, kGroup, last * kBlockUnit);
    set(6, last * 2, 64);
  }
  return t;
}

// Compilers do not all know that tile instructions read and write memory.
inline void settle() { __asm__ volatile("" ::: "memory"); }

// Codes less half of their range, 128 bytes of each unit.
template <int kBits>
void unpack(const uint8_t* codes, size_t units, int8_t* to) {
  const __m512i low = _mm512_set1_epi8(15), middle = _mm512_set1_epi8(static_cast<char>(1 << (kBits - 1)));
  for (size_t u = 0; u < units; ++u, codes += kBits * 16, to += 128) {
    __m512i first = _mm512_loadu_si512(codes), second;
    if (kBits == 4) {
      second = _mm512_and_si512(_mm512_srli_epi16(first, 4), low);
      first = _mm512_and_si512(first, low);
    } else {
      second = _mm512_loadu_si512(codes + 64);
    }
    _mm512_storeu_si512(to, _mm512_sub_epi8(first, middle));
    _mm512_storeu_si512(to + 64, _mm512_sub_epi8(second, middle));
  }
}

// The sums of a piece: x are the codes of 16 rows, w a panel's.
void sum_piece(const int8_t* x, size_t pitch, const int8_t* w, size_t units, bool is_last, int32_t* sums) {
  settle();
  _tile_zero(0);
  const auto stride = static_cast<int>(pitch);
  for (; units >= kDeep; units -= kDeep, x += 64, w += 16 * 64) {
    _tile_loadd(1, x, stride);
    _tile_loadd(2, w, 64);
    _tile_dpbssd(0, 1, 2);
  }
  if (units > 0 && is_last) {
    _tile_loadd(5, x, stride);
    _tile_loadd(6, w, 64);
    _tile_dpbssd(0, 5, 6);
  } else if (units > 0) {
    _tile_loadd(3, x, stride);
    _tile_loadd(4, w, 64);
    _tile_dpbssd(0, 3, 4);
  }
  _tile_stored(0, sums, 64);
  settle();
}

template <int kBits>
class Rows {
 public:
  Rows(const BlockGemm& g, size_t group, size_t panel)
      : g_(g), group_(group), panel_(panel), is_shifted_(g.zeros != nullptr || g.zero != 1 << (kBits - 1)) {
    INTACT_UNROLL("GCC unroll 16")
    for (size_t r = 0; r < kGroup; ++r) y_[r] = _mm512_setzero_ps();
  }

  INTACT_INLINE void run(const int8_t* weights) {
    const size_t pitch = g_.units * kBlockUnit;
    const int8_t* x = g_.x + group_ * kGroup * pitch;
    size_t x_block = 0, w_block = 0, x_left = g_.x_every, w_left = g_.w_every;
    for (size_t p = 0; p < g_.pieces; ++p) {
      const bool is_last = p + 1 == g_.pieces;
      const size_t units = is_last ? g_.units - p * g_.piece : g_.piece;
      alignas(64) int32_t sums[kGroup * kBlockPanel];
      sum_piece(x, pitch, weights, units, is_last, sums);
      x += units * kBlockUnit;
      weights += units * 128;
      if (is_shifted_ || g_.x_zeros != nullptr) shift(p, x_block, w_block, sums);
      finish(p, x_block, w_block, sums);
      if (--x_left == 0) {
        ++x_block;
        x_left = g_.x_every;
      }
      if (--w_left == 0) {
        ++w_block;
        w_left = g_.w_every;
      }
    }
    store();
  }

 private:
  size_t of_panel(size_t each, size_t at) const { return (panel_ * each + at) * kBlockPanel; }
  size_t of_group(size_t each, size_t at) const { return (group_ * each + at) * kGroup; }

  // Zero points, beyond half of the range.
  void shift(size_t p, size_t x_block, size_t w_block, int32_t* sums) const {
    const __m512i middle = _mm512_set1_epi32(1 << (kBits - 1));
    const int32_t* const negatives = g_.negatives + of_group(g_.pieces, p);
    if (is_shifted_) {
      const auto* const from = reinterpret_cast<const __m128i*>(g_.zeros + of_panel(g_.w_blocks, w_block));
      const __m512i points =
          g_.zeros != nullptr ? _mm512_cvtepu8_epi32(_mm_loadu_si128(from)) : _mm512_set1_epi32(g_.zero);
      const __m512i zeros = _mm512_sub_epi32(points, middle);
      for (size_t r = 0; r < kGroup; ++r)
        add(sums, r, _mm512_mullo_epi32(zeros, _mm512_set1_epi32(negatives[r])));
    }
    if (g_.x_zeros == nullptr) return;
    const auto elements = _mm512_set1_epi32(static_cast<int32_t>(elements_of_piece(g_, p)));
    const __m512i codes = _mm512_sub_epi32(_mm512_loadu_si512(g_.sums + of_panel(g_.pieces, p)),
                                           _mm512_mullo_epi32(elements, middle));
    const int32_t* const zeros = g_.x_zeros + of_group(g_.x_blocks, x_block);
    for (size_t r = 0; r < kGroup; ++r) add(sums, r, _mm512_mullo_epi32(codes, _mm512_set1_epi32(-zeros[r])));
  }

  static INTACT_INLINE void add(int32_t* sums, size_t r, __m512i more) {
    int32_t* const at = sums + r * kBlockPanel;
    _mm512_store_si512(at, _mm512_add_epi32(_mm512_load_si512(at), more));
  }

  INTACT_INLINE void finish(size_t p, size_t x_block, size_t w_block, const int32_t* sums) {
    const __m512 scales = block_gemm::load_reals<Avx512>(g_.scales, of_panel(g_.w_blocks, w_block)).v;
    const float* const x_scales = g_.x_scales + of_group(g_.x_blocks, x_block);
    INTACT_UNROLL("GCC unroll 16")
    for (size_t r = 0; r < kGroup; ++r) {
      const __m512 real = _mm512_cvtepi32_ps(_mm512_load_si512(sums + r * kBlockPanel));
      const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(x_scales[r]), scales);
      y_[r] = _mm512_add_ps(y_[r], _mm512_mul_ps(real, scale));
    }
    if (g_.minima.values == nullptr) return;
    const __m512 minima = block_gemm::load_reals<Avx512>(g_.minima, of_panel(g_.w_blocks, w_block)).v;
    const int32_t* const negatives = g_.negatives + of_group(g_.pieces, p);
    INTACT_UNROLL("GCC unroll 16")
    for (size_t r = 0; r < kGroup; ++r) {
      const __m512 total = _mm512_set1_ps(static_cast<float>(-negatives[r]));
      const __m512 minimum = _mm512_mul_ps(_mm512_set1_ps(x_scales[r]), minima);
      y_[r] = _mm512_add_ps(y_[r], _mm512_mul_ps(total, minimum));
    }
  }

  INTACT_INLINE void store() const {
    const size_t column = panel_ * kBlockPanel, left = g_.columns - column, row = group_ * kGroup;
    const auto lanes = static_cast<__mmask16>(left < 16 ? (1u << left) - 1 : 0xffffu);
    const __m512 bias = g_.bias != nullptr ? _mm512_loadu_ps(g_.bias + column) : _mm512_setzero_ps();
    float* const y = g_.y + row * g_.y_pitch + column;
    INTACT_UNROLL("GCC unroll 16")
    for (size_t r = 0; r < kGroup; ++r) {
      if (row + r >= g_.rows) break;
      const __m512 sum = g_.bias != nullptr ? _mm512_add_ps(y_[r], bias) : y_[r];
      _mm512_mask_storeu_ps(y + r * g_.y_pitch, lanes, sum);
    }
  }

  const BlockGemm& g_;
  const size_t group_, panel_;
  const bool is_shifted_;  // zero points are not half of the range
  __m512 y_[kGroup];
};

template <int kBits>
void multiply(const BlockGemm& g) {
  const size_t last = g.units - (g.pieces - 1) * g.piece;
  const TileShapes shapes = shapes_of(g.piece % kDeep, last % kDeep);
  settle();
  _tile_loadconfig(&shapes);
  auto* const weights = reinterpret_cast<int8_t*>(g.scratch);
  for (size_t panel = 0; panel * kBlockPanel < g.columns; ++panel) {
    unpack<kBits>(g.codes + panel * g.units * (kBits * 16), g.units, weights);
    for (size_t group = 0; group * kGroup < g.rows; ++group) {
      Rows<kBits> rows(g, group, panel);
      rows.run(weights);
    }
  }
  _tile_release();
}

}  // namespace

const BlockGemmOps block_gemm_amx = {kGroup,
                                     block_gemm::lay_rows<Avx512::Narrow, kGroup, 1>,
                                     5,
                                     128,
                                     1,
                                     0,
                                     multiply<4>,
                                     nullptr,
                                     nullptr,
                                     multiply<8>,
                                     nullptr,
                                     block_gemm::widen4_avx512,
                                     block_gemm::widen8_avx512,
                                     block_gemm::float_rows4_avx512,
                                     block_gemm::float_rows8_avx512,
                                     block_gemm::expand<Avx512, 5>,
                                     block_gemm::expand<Avx512, 6>,
                                     block_gemm::expand_table_avx512,
                                     block_gemm::multiply_levels<Avx512>};

}  // namespace intact
#endif
