#include "kernels/moments/generic.h"

#if INTACT_ARCH_NEON
#include <arm_neon.h>

namespace intact {
namespace {

struct Doubles128 {
  using D = float64x2_t;
  static constexpr size_t kWidth = 2;
  static INTACT_INLINE D load(const double* x) { return vld1q_f64(x); }
  static INTACT_INLINE D widened(const float* x) { return vcvt_f64_f32(vld1_f32(x)); }
  static INTACT_INLINE D add(D a, D b) { return vaddq_f64(a, b); }
  static INTACT_INLINE D set(double x) { return vdupq_n_f64(x); }
  static INTACT_INLINE void store(double* to, D x) { vst1q_f64(to, x); }
  static INTACT_INLINE D add_product(D a, D b, D sum) { return vfmaq_f64(sum, a, b); }
};

}  // namespace

const MomentsOps moments_neon = {moments_loops::widen<Doubles128>, moments_loops::add_products<Doubles128>};

}  // namespace intact
#endif
