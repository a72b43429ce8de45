// tdpbusd: 16 rows by 16 channels by 64 bytes in one instruction, exact. A block has 2 x 2 tiles of sums,
// so that 4 tiles that are loaded feed 4 products; epilogues are vectors' work and go in between (tiles.h).
#include "kernels/gemm/tiles.h"

#if INTACT_ARCH_X86 && defined(INTACT_AMX)
#include <immintrin.h>

namespace intact {
namespace {

constexpr int kUnit = 16;
constexpr int kWidest = 2;

struct alignas(64) TileShapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileShapes) == 64);

// All alike, whatever a layer's sizes are: they are loaded once for many sums.
constexpr TileShapes kShapes = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

void enter() { _tile_loadconfig(&kShapes); }
void leave() { _tile_release(); }

// Compilers do not all know that tile instructions read memory: nothing is stored later or earlier than here.
inline void settle() { __asm__ volatile("" ::: "memory"); }

void gather(const TileGather& g, uint8_t* to) {
  const uint8_t* const* const x = g.x;
  const int rows = g.rows;
  for (const TilePiece *piece = g.pieces, *end = piece + g.count; piece < end; ++piece) {
    const ptrdiff_t from = g.x_offset + piece->from;
    uint8_t* at = to + piece->to;
    if (piece->steps == kDeepSteps) {
      for (int r = 0; r < rows; ++r, at += kDeepBytes)
        _mm512_store_si512(at, _mm512_loadu_si512(x[r] + from));
      continue;
    }
    const auto lanes = static_cast<__mmask16>((1u << piece->steps) - 1);
    for (int r = 0; r < rows; ++r, at += kDeepBytes) {
      _mm512_mask_storeu_epi32(at, lanes, _mm512_maskz_loadu_epi32(lanes, x[r] + from));
    }
  }
}

// Sums of low bytes lie behind the high ones'.
constexpr int kJoined = kTileRows * kWidest * kUnit;

// join_sums of 16 channels.
class Join {
 public:
  explicit Join(const TilePending& p)
      : p_(p), up_(_mm_cvtsi32_si128(8 - p.shift)), down_(_mm_cvtsi32_si128(p.shift)) {}

  // `at`: sums of high bytes; `c`: their first channel in the panel.
  __m512i at(const int32_t* high, const int32_t* low, int c) const {
    const __m512i above =
        _mm512_add_epi32(_mm512_load_si512(high), _mm512_loadu_si512(p_.high_correction + c));
    const __m512i below = _mm512_add_epi32(_mm512_load_si512(low), _mm512_loadu_si512(p_.correction + c));
    return _mm512_add_epi32(_mm512_sll_epi32(above, up_), _mm512_sra_epi32(below, down_));
  }

 private:
  const TilePending& p_;
  __m128i up_, down_;
};

// Codes of 32 channels, two rows at a time. kPlain: zero points and `low` are 0.
template <CodeForm kForm, bool kPlain, bool kJoins>
class Codes {
 public:
  explicit Codes(const TilePending& p) : Codes(p, *p.epilogue, p.rows) {}
  Codes(const TilePending& p, const Epilogue& e, const GemmRows& t)
      : t_(t),
        join_(p),
        correction_{_mm512_loadu_si512(p.correction), _mm512_loadu_si512(p.correction + kUnit)},
        multiplier_{_mm512_loadu_ps(t.multiplier), _mm512_loadu_ps(t.multiplier + kUnit)},
        bias_{_mm512_loadu_ps(t.bias), _mm512_loadu_ps(t.bias + kUnit)},
        residual_multiplier_(_mm512_set1_ps(e.residual_multiplier)),
        residual_zero_point_(_mm512_set1_ps(static_cast<float>(e.residual_zero_point))),
        high_inverse_(_mm512_set1_ps(e.divisor.high)),
        low_inverse_(_mm512_set1_ps(e.divisor.low)),
        zero_point_(_mm512_set1_epi16(static_cast<int16_t>(e.zero_point))),
        low_(_mm512_set1_epi8(static_cast<char>(e.low))),
        high_(_mm512_set1_epi8(static_cast<char>(e.high))),
        order_(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)) {}

  void write(int row) const {
    __m512i bytes = _mm512_packus_epi16(words(row), words(row + 1));
    if constexpr (!kPlain) bytes = _mm512_max_epu8(bytes, low_);
    bytes = _mm512_permutexvar_epi32(order_, _mm512_min_epu8(bytes, high_));
    store(row, _mm512_castsi512_si256(bytes));
    store(row + 1, _mm512_extracti64x4_epi64(bytes, 1));
  }

 private:
  void store(int row, __m256i bytes) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(t_.y[row] + t_.y_offset), bytes);
  }

  __m512i words(int row) const {
    const __m512i words = _mm512_packs_epi32(steps<0>(row), steps<1>(row));
    return kPlain ? words : _mm512_adds_epi16(words, zero_point_);
  }

  template <int kVector>
  __m512i steps(int row) const {
    const int32_t* const at = t_.sums + (row * kWidest + kVector) * kUnit;
    const __m512i products = kJoins ? join_.at(at, at + kJoined, kVector * kUnit)
                                    : _mm512_add_epi32(_mm512_load_si512(at), correction_[kVector]);
    const __m512 sums = _mm512_cvtepi32_ps(products);
    __m512 real = _mm512_add_ps(_mm512_mul_ps(sums, multiplier_[kVector]), bias_[kVector]);
    if constexpr (reads_residual(kForm)) {
      const uint8_t* const codes = t_.residual[row] + t_.residual_offset + kUnit * kVector;
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
      __m512 branch = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
      if constexpr (!kPlain) branch = _mm512_sub_ps(branch, residual_zero_point_);
      real = _mm512_add_ps(real, _mm512_mul_ps(branch, residual_multiplier_));
    }
    if constexpr (divides(kForm)) {  // base/divisor.h
      real = _mm512_fmadd_ps(real, high_inverse_, _mm512_mul_ps(real, low_inverse_));
    }
    return _mm512_cvtps_epi32(real);
  }

  const GemmRows& t_;
  Join join_;
  __m512i correction_[kWidest];
  __m512 multiplier_[kWidest], bias_[kWidest];
  __m512 residual_multiplier_, residual_zero_point_, high_inverse_, low_inverse_;
  __m512i zero_point_, low_, high_, order_;
};

template <CodeForm kForm, bool kPlain, bool kJoins>
void finish_codes(const TilePending& p, int first, int count) {
  const Codes<kForm, kPlain, kJoins> codes(p);
  for (int row = first; row < first + count; row += 2) codes.write(row);
}

// Floats of 32 channels, of sums alone.
template <bool kJoins>
void finish_floats(const TilePending& p, int first, int count) {
  const GemmRows& t = p.rows;
  const __m512 low = _mm512_set1_ps(p.epilogue->real_low), high = _mm512_set1_ps(p.epilogue->real_high);
  const Join join(p);
#pragma GCC unroll 2
  for (int c = 0; c < kWidest * kUnit; c += kUnit) {
    const __m512i correction = _mm512_loadu_si512(p.correction + c);
    const __m512 multiplier = _mm512_loadu_ps(t.multiplier + c), bias = _mm512_loadu_ps(t.bias + c);
    for (int row = first; row < first + count; ++row) {
      const int32_t* const at = t.sums + row * kWidest * kUnit + c;
      const __m512i products =
          kJoins ? join.at(at, at + kJoined, c) : _mm512_add_epi32(_mm512_load_si512(at), correction);
      const __m512 sums = _mm512_cvtepi32_ps(products);
      const __m512 real = _mm512_add_ps(_mm512_mul_ps(sums, multiplier), bias);
      float* const y = reinterpret_cast<float*>(t.y[row] + t.y_offset) + c;
      _mm512_storeu_ps(y, _mm512_min_ps(high, _mm512_max_ps(low, real)));
    }
  }
}

template <bool kJoins>
void finish_any(const TilePending& p, int first, int count) {
  GemmRows part = p.rows;
  int32_t* const sums = p.sums + first * part.width;
  const Join join(p);
  for (int c = 0; c < part.width; c += kUnit) {
    const __m512i correction = _mm512_loadu_si512(p.correction + c);
    for (int32_t* at = sums + c; at < sums + count * part.width; at += part.width) {
      const __m512i products = kJoins ? join.at(at, at + kTileRows * part.width, c)
                                      : _mm512_add_epi32(_mm512_load_si512(at), correction);
      _mm512_store_si512(at, products);
    }
  }
  part.sums = sums;
  part.rows = count;
  part.y += first;
  if (part.residual != nullptr) part.residual += first;
  gemm_avx512vnni.finish(*p.epilogue, part);
}

template <bool kJoins>
TileEpilogue epilogue_by(const Epilogue& e, const GemmRows& rows) {
  using enum CodeForm;
  const bool plainly =
      e.function == nullptr && rows.slopes == nullptr && !e.has_gain && rows.channels == kWidest * kUnit;
  if (plainly && e.floats && !e.has_residual) return finish_floats<kJoins>;
  if (!plainly || e.floats || !e.bounded) return finish_any<kJoins>;
  const bool plain = e.zero_point == 0 && e.low == 0 && (!e.has_residual || e.residual_zero_point == 0);
  switch (e.code_form()) {
    case product: return plain ? finish_codes<product, true, kJoins> : finish_codes<product, false, kJoins>;
    case divided: return plain ? finish_codes<divided, true, kJoins> : finish_codes<divided, false, kJoins>;
    default:
      return plain ? finish_codes<divided_with_residual, true, kJoins>
                   : finish_codes<divided_with_residual, false, kJoins>;
  }
}

TileEpilogue epilogue_of(const Epilogue& e, const GemmRows& rows, bool joins) {
  return joins ? epilogue_by<true>(e, rows) : epilogue_by<false>(e, rows);
}

// Lines far from each other, which arrive before the block's own epilogue needs them.
inline void fetch_ends(const GemmRows& ends, int first, int count) {
  const int end = first + count < ends.rows ? first + count : ends.rows;
  for (int r = first; r < end; ++r) __builtin_prefetch(ends.y[r] + ends.y_offset, 1);
  if (ends.residual == nullptr) return;
  for (int r = first; r < end; ++r) __builtin_prefetch(ends.residual[r] + ends.residual_offset);
}

// What goes on between tiles, some rows at a time: the epilogue of the block before and what this one's will
// need. Where there are few deep steps, all rows at once would keep a core, which looks some 500
// instructions ahead, from the next tile.
template <bool kFew>
class Between {
 public:
  Between(const TileBlock& b, TilePending& before)
      : ends_(b.ends),
        before_(before),
        times_(kFew ? 2 * b.depth + 2 : b.depth),
        each_(((b.most + times_ - 1) / times_ + 1) & ~1) {}

  void middle() {
    if constexpr (kFew) end();
  }
  void end() {
    if (ends_ != nullptr) fetch_ends(*ends_, fetched_, each_);
    fetched_ += each_;
    before_.advance(each_);
  }

 private:
  const GemmRows* const ends_;
  TilePending& before_;
  const int times_, each_;
  int fetched_ = 0;
};

// Tiles 0 to 3 are sums, 4 and 5 inputs, 6 and 7 weights.
template <bool kTall, bool kWide, bool kFew>
void sum_block(const TileBlock& b, TilePending& before) {
  constexpr ptrdiff_t kPitch = kWide ? 2 * kDeepBytes : kDeepBytes;
  const int8_t *w = b.weights, *next = b.next;
  Between<kFew> between(b, before);
  settle();
  _tile_zero(0);
  if constexpr (kWide) _tile_zero(1);
  if constexpr (kTall) _tile_zero(2);
  if constexpr (kTall && kWide) _tile_zero(3);
  for (int32_t k = 0; k < b.depth; ++k, w += kDeepSteps * kPitch) {
    const uint8_t* const x = b.x + b.offsets[k];
    for (int i = 0; i < b.lines; ++i, next += kFetchedBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
    }
    _tile_loadd(4, x, b.pitch);
    _tile_loadd(6, w, kPitch);
    _tile_dpbusd(0, 4, 6);
    if constexpr (kWide) {
      _tile_loadd(7, w + 64, kPitch);
      _tile_dpbusd(1, 4, 7);
    }
    between.middle();
    if constexpr (kTall) {
      _tile_loadd(5, x + b.below, b.pitch);
      _tile_dpbusd(2, 5, 6);
    }
    if constexpr (kTall && kWide) _tile_dpbusd(3, 5, 7);
    between.end();
  }
  settle();
  int32_t* const lower = b.sums + kTileRows * b.width;
  _tile_stored(0, b.sums, kPitch);
  if constexpr (kWide) _tile_stored(1, b.sums + kUnit, kPitch);
  between.middle();
  if constexpr (kTall) _tile_stored(2, lower, kPitch);
  if constexpr (kTall && kWide) _tile_stored(3, lower + kUnit, kPitch);
  before.advance(kBlockRows);
  settle();
}

template <bool kFew>
void sum_any(const TileBlock& b, TilePending& before) {
  if (b.rows == kTileRows) {
    return b.width == kUnit ? sum_block<false, false, kFew>(b, before)
                            : sum_block<false, true, kFew>(b, before);
  }
  return b.width == kUnit ? sum_block<true, false, kFew>(b, before) : sum_block<true, true, kFew>(b, before);
}
void sum(const TileBlock& b, TilePending& before) {
  return b.depth < 4 ? sum_any<true>(b, before) : sum_any<false>(b, before);
}

constexpr TileOps kOps = {enter, leave, gather, epilogue_of, sum};

}  // namespace

const GemmOps gemm_amx = {.unit = kUnit,
                          .widest = kWidest,
                          .grouped = false,
                          .rows = {kBlockRows, kBlockRows, 0, 0},
                          .shift = 0,
                          .sum = nullptr,
                          .finish = nullptr,
                          .deep = kDeepSteps,
                          .tiles = &kOps};

}  // namespace intact
#endif
