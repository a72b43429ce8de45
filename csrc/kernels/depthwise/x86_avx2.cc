// vpmaddubsw adds two products in 16 bits, and saturates. Where bytes of x end at 127 it never does: their
// products fit. Else magnitudes of weights, up to 128, multiply signed bytes, and the least sum is -32768.
#include "base/cpu.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"
#include "kernels/depthwise/fours.h"

namespace intact {
namespace {

constexpr int kMostByte = 127;

// Less than 32 bytes; two stores that overlap make any number of them.
INTACT_INLINE void copy_some(const uint8_t* from, uint8_t* to, size_t n) {
  const auto both = [&](auto bytes) {
    std::memcpy(to, from, sizeof bytes);
    std::memcpy(to + n - sizeof bytes, from + n - sizeof bytes, sizeof bytes);
  };
  if (n >= 16) return both(__m128i{});
  if (n >= 8) return both(uint64_t{});
  if (n >= 4) return both(uint32_t{});
  for (size_t i = 0; i < n; ++i) to[i] = from[i];
}

// Of a tail whole registers are read, as `slack` allows. The mask of a whole block is 0.
struct Width : Avx2 {
  using Mask = size_t;
  static constexpr bool kMasks = false;
  static constexpr int kRegisters = 16;
  static Mask mask(int bytes) { return static_cast<unsigned>(bytes) % 32; }
  static INTACT_INLINE void store_tail(uint8_t* p, Bytes v, Mask n) {
    if (n == 0) return store_bytes(p, v);
    alignas(32) uint8_t all[32];
    store_bytes(all, v);
    copy_some(all, p, n);
  }
  static INTACT_INLINE bool differ(Bytes a, Bytes b) {
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)) != -1;
  }
  static INTACT_INLINE Ints sum(Ints acc, Ints pairs) {
    return add_int(acc, pair_words(pairs, set_words(1)));
  }
};

struct Low : Width {
  using Ends = Width;
  static INTACT_INLINE Ints dot(Ints acc, Ints x, Bytes w) { return sum(acc, pair_bytes(x, w)); }
};

struct Any : Width {
  using Ends = Width;
  static INTACT_INLINE Ints dot(Ints acc, Ints x, Bytes size, Bytes turn) {
    return sum(acc, pair_bytes(size, xor_int(x, turn)));
  }
};

constexpr int kWidest = Avx2::kBytes;

fours::Form form_for(int high) { return high <= kMostByte ? fours::Form{} : fours::Form{128, true}; }

size_t packed_bytes(const DepthwiseWeights& w) { return fours::packed_bytes(w, kWidest, form_for(w.high)); }

void pack(const DepthwiseWeights& w, uint8_t* packed) { fours::pack(w, kWidest, packed, form_for(w.high)); }

template <class V>
void run_blocks(const DepthwiseRow& d) {
  const auto work = [](const fours::Block& block, int, const ptrdiff_t* offsets, int groups) {
    fours::work<V>(block, offsets, groups);
  };
  fours::each_block<kWidest>(d, work, form_for(d.high));
}

void run(const DepthwiseRow& d) { d.high <= kMostByte ? run_blocks<Low>(d) : run_blocks<Any>(d); }

}  // namespace

const DepthwiseOps depthwise_avx2 = {kWidest, kWidest, packed_bytes, pack, run, FunctionBounds::with_end};

}  // namespace intact
#endif
