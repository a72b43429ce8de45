#include "kernels/moments/generic.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

struct Doubles256 {
  using D = __m256d;
  static constexpr size_t kWidth = 4;
  static INTACT_INLINE D load(const double* x) { return _mm256_loadu_pd(x); }
  static INTACT_INLINE D widened(const float* x) { return _mm256_cvtps_pd(_mm_loadu_ps(x)); }
  static INTACT_INLINE D add(D a, D b) { return _mm256_add_pd(a, b); }
  static INTACT_INLINE D set(double x) { return _mm256_set1_pd(x); }
  static INTACT_INLINE void store(double* to, D x) { _mm256_storeu_pd(to, x); }
  static INTACT_INLINE D add_product(D a, D b, D sum) { return _mm256_fmadd_pd(a, b, sum); }
};

}  // namespace

const MomentsOps moments_avx2 = {moments_loops::widen<Doubles256>, moments_loops::add_products<Doubles256>};

}  // namespace intact
#endif
