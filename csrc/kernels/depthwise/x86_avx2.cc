// Four taps at a time where no pair of products can leave 16 bits, because bytes of x end at 127; else two.
#include "base/cpu.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"
#include "kernels/depthwise/fours.h"
#include "kernels/depthwise/pairs_avx2.h"

namespace intact {
namespace {

// 127 * 128 * 2 fits 16 bits, and vpmaddubsw saturates nothing.
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

// Of a tail whole registers are read, as `slack` allows.
template <class V>
struct Width : V {
  using Mask = size_t;
  using typename V::Bytes;
  using typename V::Ints;
  static Mask mask(int bytes) { return static_cast<unsigned>(bytes) % 32; }
  static INTACT_INLINE Bytes load_tail(const uint8_t* p, Mask) { return V::load_bytes(p); }
  static INTACT_INLINE void store_tail(uint8_t* p, Bytes v, Mask n) {
    alignas(32) uint8_t all[32];
    V::store_bytes(all, v);
    copy_some(all, p, n);
  }
  static INTACT_INLINE Ints dot(Ints acc, Ints x, Bytes w) {
    return V::add_int(acc, V::pair_words(V::pair_bytes(x, w), V::set_words(1)));
  }
};
using Wide = Width<Avx2>;
using Narrow = Width<Sse>;
constexpr int kWidest = Wide::kBytes;

size_t packed_bytes(const DepthwiseWeights& w) {
  return w.high <= kMostByte ? fours::packed_bytes(w, kWidest) : pairs::packed_bytes(w);
}

void pack(const DepthwiseWeights& w, uint8_t* packed) {
  w.high <= kMostByte ? fours::pack(w, kWidest, packed) : pairs::pack(w, packed);
}

void run(const DepthwiseRow& d) {
  if (d.high > kMostByte) {
    const int end = static_cast<int>(d.end) * kWidest;
    pairs::run(d, static_cast<int>(d.begin) * kWidest, end < d.channels ? end : d.channels);
    return;
  }
  fours::each_block<kWidest>(d,
                             [](const fours::Block& block, int width, const ptrdiff_t* offsets, int groups) {
                               if (width == 32) fours::work<Wide>(block, offsets, groups);
                               if (width == 16) fours::work<Narrow>(block, offsets, groups);
                             });
}

}  // namespace

const DepthwiseOps depthwise_avx2 = {kWidest, kWidest, packed_bytes, pack, run};

}  // namespace intact
#endif
