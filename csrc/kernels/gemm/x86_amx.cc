// tdpbusd: 16 rows by 16 channels by 64 bytes in one instruction, exact. Epilogues are those of AVX-512.
//
// 16 steps of a vector of channels are a tile as they lie packed. 16 rows of inputs are one where pixels lie
// evenly and a run goes on for 64 bytes; elsewhere they are gathered first.
#include "kernels/gemm/gemm.h"

#if INTACT_ARCH_X86 && defined(INTACT_AMX)
#include <immintrin.h>

namespace intact {
namespace {

constexpr int kUnit = 16;
constexpr int kWidest = 2;  // with two blocks of rows: 4 tiles of sums, 2 of inputs, 2 of weights
constexpr int kBlock = 16;  // rows of a tile
constexpr int kDeep = 16;   // steps of a tile
constexpr int kTall = 2 * kBlock;

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

// Neighbouring steps of one run, and the lane of 4 bytes that the first of them is for.
struct Piece {
  int32_t offset;
  int lane, steps;
};

// Walks the steps of all runs.
class Runs {
 public:
  explicit Runs(const GemmSteps& s) : pair_(s.steps) {}

  // What the next `steps` steps consist of, for lanes from `lane`; how many pieces that is.
  int next(int steps, int lane, Piece (&pieces)[kDeep]) {
    int count = 0;
    while (steps > 0) {
      const int left = pair_[1] - done_, taken = steps < left ? steps : left;
      pieces[count++] = {pair_[0] + 4 * done_, lane, taken};
      lane += taken;
      steps -= taken;
      done_ += taken;
      if (taken < left) break;
      pair_ += 2;
      done_ = 0;
    }
    return count;
  }

 private:
  const int32_t* pair_;
  int32_t done_ = 0;
};

// 64 bytes of 16 rows, somewhere.
struct Source {
  const uint8_t* from;
  ptrdiff_t pitch;
};

class Block {
 public:
  // Rows beyond the last repeat it: nobody reads their sums.
  Block(const GemmTile& t, int first) {
    for (int r = 0; r < kBlock; ++r) {
      const int row = first + r < t.rows ? first + r : t.rows - 1;
      x_[r] = t.x[row] + t.x_offset;
    }
    const auto place = [this](int r) { return reinterpret_cast<intptr_t>(x_[r]); };
    pitch_ = place(1) - place(0);
    for (int r = 2; r < kBlock; ++r) even_ = even_ && place(r) - place(r - 1) == pitch_;
  }

  Source at(const Piece (&pieces)[kDeep], int count, uint8_t* gathered) const {
    if (even_ && pieces[0].steps == kDeep) return {x_[0] + pieces[0].offset, pitch_};
    if (pieces[0].lane != 0) {
      for (int r = 0; r < kBlock; ++r) _mm512_store_si512(gathered + 64 * r, _mm512_setzero_si512());
    }
    for (int i = 0; i < count; ++i) {
      const auto lanes = static_cast<__mmask16>((1u << pieces[i].steps) - 1);
      uint8_t* const to = gathered + 4 * pieces[i].lane;
      for (int r = 0; r < kBlock; ++r) {
        const __m512i bytes = _mm512_maskz_loadu_epi32(lanes, x_[r] + pieces[i].offset);
        _mm512_mask_storeu_epi32(to + 64 * r, lanes, bytes);
      }
    }
    return {gathered, 64};
  }

 private:
  const uint8_t* x_[kBlock];
  ptrdiff_t pitch_;
  bool even_ = true;
};

// The weights of the next panel's steps that fall to so many steps of this one.
inline void fetch(const int8_t* next) {
  for (int i = 0; i < kDeep * kFetched; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(next + i), _MM_HINT_T1);
  }
}

// `total` steps, at least 16. Tiles 0 to 3 are sums, 4 and 5 inputs, 6 and 7 weights. The last steps come
// with those before them, whose inputs are then zeros.
template <int kBlocks, int kVectors>
void sum_tile(const GemmSteps& s, const GemmTile& t, int total) {
  constexpr ptrdiff_t kPitch = 64 * kVectors;
  alignas(64) uint8_t gathered[kBlocks][kBlock * 64];
  const Block top(t, 0), bottom(t, kBlocks == 2 ? kBlock : 0);
  settle();
  _tile_loadd(0, t.correction, 0);
  if constexpr (kBlocks == 2) _tile_loadd(2, t.correction, 0);
  if constexpr (kVectors == 2) _tile_loadd(1, t.correction + kUnit, 0);
  if constexpr (kBlocks == 2 && kVectors == 2) _tile_loadd(3, t.correction + kUnit, 0);
  Runs runs(s);
  Piece pieces[kDeep];
  const int8_t* next = t.next;
  for (int step = 0; step < total; step += kDeep) {
    const int left = total - step, steps = left < kDeep ? left : kDeep, idle = kDeep - steps;
    const int8_t* const w = s.weights + (step - idle) * kPitch;
    const int count = runs.next(steps, idle, pieces);
    const Source a = top.at(pieces, count, gathered[0]);
    const Source b = kBlocks == 2 ? bottom.at(pieces, count, gathered[kBlocks - 1]) : a;
    if (next != nullptr) {
      fetch(next);
      next += kDeep * kFetched;
    }
    settle();
    _tile_loadd(6, w, kPitch);
    _tile_loadd(4, a.from, a.pitch);
    _tile_dpbusd(0, 4, 6);
    if constexpr (kVectors == 2) {
      _tile_loadd(7, w + 64, kPitch);
      _tile_dpbusd(1, 4, 7);
    }
    if constexpr (kBlocks == 2) {
      _tile_loadd(5, b.from, b.pitch);
      _tile_dpbusd(2, 5, 6);
    }
    if constexpr (kBlocks == 2 && kVectors == 2) _tile_dpbusd(3, 5, 7);
    settle();
  }
  int32_t* const below = t.sums + kBlock * kUnit * kVectors;
  _tile_stored(0, t.sums, kPitch);
  if constexpr (kVectors == 2) _tile_stored(1, t.sums + kUnit, kPitch);
  if constexpr (kBlocks == 2) _tile_stored(2, below, kPitch);
  if constexpr (kBlocks == 2 && kVectors == 2) _tile_stored(3, below + kUnit, kPitch);
}

// Fewer steps than a tile has: no work for tiles, and no weights before them to come with.
void sum_shallow(const GemmSteps& s, const GemmTile& t) {
  const int most = gemm_avx512vnni.rows[s.width / kUnit - 1];
  for (int row = 0; row < t.rows; row += most) {
    GemmTile part = t;
    part.x += row;
    part.rows = t.rows - row < most ? t.rows - row : most;
    part.sums += row * s.width;
    part.next = nullptr;
    gemm_avx512vnni.sum(s, part);
  }
}

void sum(const GemmSteps& s, const GemmTile& t) {
  int total = 0;
  for (int32_t run = 0; run < s.counts[0]; ++run) total += s.steps[2 * run + 1];
  if (total < kDeep) return sum_shallow(s, t);
  if (t.rows <= kBlock) return s.width == kUnit ? sum_tile<1, 1>(s, t, total) : sum_tile<1, 2>(s, t, total);
  return s.width == kUnit ? sum_tile<2, 1>(s, t, total) : sum_tile<2, 2>(s, t, total);
}

void finish(const Epilogue& e, const GemmRows& rows) { gemm_avx512vnni.finish(e, rows); }

}  // namespace

const GemmOps gemm_amx = {.unit = kUnit,
                          .widest = kWidest,
                          .grouped = false,
                          .rows = {kTall, kTall, 0, 0},
                          .shift = 0,
                          .sum = sum,
                          .finish = finish,
                          .enter = enter,
                          .leave = leave};

}  // namespace intact
#endif
