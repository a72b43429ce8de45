// sdot: fours of signed bytes. Codes of 8 bits are read less 128.
#include "kernels/block_gemm/float_rows.h"

#if defined(INTACT_NEON_DOT)
#include "base/vector/neon.h"

namespace intact {
namespace {

struct Dot128 {
  using V = Neon;
  static constexpr int kOffset = 128, kGroups = 1, kVectors = 2, kPanels = 1;
  static constexpr bool kReadsHighBits = false;

  static INTACT_INLINE uint8x16_t load_table(const uint8_t* table) { return vld1q_u8(table); }
  static INTACT_INLINE int32x4_t look_up(uint8x16_t table, int32x4_t places) {
    return vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(places)));
  }

  // 64 bytes, of which each lane looks up four neighbours.
  struct FloatTable {
    INTACT_INLINE explicit FloatTable(const float* table)
        : bytes(vld1q_u8_x4(reinterpret_cast<const uint8_t*>(table))) {}
    INTACT_INLINE V::Floats operator()(int32x4_t codes) const {
      const uint32x4_t places = vandq_u32(vreinterpretq_u32_s32(codes), vdupq_n_u32(15));
      const uint32x4_t at = vmlaq_u32(vdupq_n_u32(0x03020100), places, vdupq_n_u32(0x04040404));
      return {vreinterpretq_f32_u8(vqtbl4q_u8(bytes, vreinterpretq_u8_u32(at)))};
    }
    uint8x16x4_t bytes;
  };

  template <int kBits, int kRows, int kVectors, size_t kParts>
  static INTACT_INLINE void add(int32x4_t (&acc)[kRows][kVectors], const uint8_t* codes,
                                size_t /*panel_bytes*/, const int8_t* const (&x)[kParts], size_t units) {
    for (size_t k = 0; k < 2 * units; k += 2, codes += kBits * 16) {
      for (int v = 0; v < kVectors; ++v) {
        uint8x16_t first = vld1q_u8(codes + 16 * v), second;
        if (kBits == 4) {
          second = vshrq_n_u8(first, 4);
          first = vandq_u8(first, vdupq_n_u8(15));
        } else {
          second = veorq_u8(vld1q_u8(codes + 64 + 16 * v), vdupq_n_u8(128));
          first = veorq_u8(first, vdupq_n_u8(128));
        }
        for (int r = 0; r < kRows; ++r) {
          acc[r][v] = vdotq_s32(acc[r][v], vreinterpretq_s8_u8(first), fours(x[0], k, r));
          acc[r][v] = vdotq_s32(acc[r][v], vreinterpretq_s8_u8(second), fours(x[0], k + 1, r));
        }
      }
    }
  }

  static INTACT_INLINE int8x16_t fours(const int8_t* group, size_t at, int row) {
    return vreinterpretq_s8_s32(vdupq_n_s32(block_gemm::four(group, at, row)));
  }
};

}  // namespace

const BlockGemmOps block_gemm_neondot =
    block_gemm::ops_of<Dot128>(block_gemm::float_rows4<Dot128>, block_gemm::float_rows<Dot128::V, 8>);

}  // namespace intact
#endif
