// 16 bytes a step, the tail through copies of itself.
#include "kernels/pointwise/pointwise.h"

#if INTACT_ARCH_X86
#include <cstring>

#include "base/x86_avx2_bytes.h"

namespace intact {
namespace {

constexpr size_t kStep = 16;

struct Lanes {
  __m256i zero;
  __m256 multiplier;

  explicit Lanes(Operand o) : zero(_mm256_set1_epi32(o.zero)), multiplier(_mm256_set1_ps(o.multiplier)) {}

  __m256 steps(const uint8_t* x) const {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
    const __m256i centred = _mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), zero);
    return _mm256_mul_ps(_mm256_cvtepi32_ps(centred), multiplier);
  }
};

void store(uint8_t* y, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(y), v); }

void add(const uint8_t* a, Operand from_a, const uint8_t* b, Operand from_b, size_t n, const ByteGrid& grid,
         uint8_t* y) {
  const Lanes left(from_a), right(from_b);
  const Bytes8 bytes(grid);
  const auto step = [&](const uint8_t* p, const uint8_t* q, uint8_t* to) {
    const __m256 first = _mm256_add_ps(left.steps(p), right.steps(q));
    store(to, bytes.of(first, _mm256_add_ps(left.steps(p + 8), right.steps(q + 8))));
  };
  size_t i = 0;
  for (; i + kStep <= n; i += kStep) step(a + i, b + i, y + i);
  if (i == n) return;
  uint8_t p[kStep] = {0}, q[kStep] = {0}, to[kStep];
  std::memcpy(p, a + i, n - i);
  std::memcpy(q, b + i, n - i);
  step(p, q, to);
  std::memcpy(y + i, to, n - i);
}

void rescale(const uint8_t* x, Operand from, size_t n, const ByteGrid& grid, uint8_t* y) {
  const Lanes lanes(from);
  const Bytes8 bytes(grid);
  const auto step = [&](const uint8_t* p, uint8_t* to) {
    store(to, bytes.of(lanes.steps(p), lanes.steps(p + 8)));
  };
  size_t i = 0;
  for (; i + kStep <= n; i += kStep) step(x + i, y + i);
  if (i == n) return;
  uint8_t p[kStep] = {0}, to[kStep];
  std::memcpy(p, x + i, n - i);
  step(p, to);
  std::memcpy(y + i, to, n - i);
}

// Nothing here is faster than one load after the other; eight are under way at once.
void lookup(const uint8_t* x, const uint8_t* table, size_t n, uint8_t* y) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t in, out = 0;
    std::memcpy(&in, x + i, 8);
    for (int k = 0; k < 64; k += 8) out |= static_cast<uint64_t>(table[in >> k & 255]) << k;
    std::memcpy(y + i, &out, 8);
  }
  for (; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace

const PointwiseOps pointwise_avx2 = {add, rescale, lookup};

}  // namespace intact
#endif
