#include "kernels/moments/generic.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

struct Doubles512 {
  using D = __m512d;
  static constexpr size_t kWidth = 8;
  static INTACT_INLINE D load(const double* x) { return _mm512_loadu_pd(x); }
  static INTACT_INLINE D widened(const float* x) { return _mm512_cvtps_pd(_mm256_loadu_ps(x)); }
  static INTACT_INLINE D add(D a, D b) { return _mm512_add_pd(a, b); }
  static INTACT_INLINE D set(double x) { return _mm512_set1_pd(x); }
  static INTACT_INLINE void store(double* to, D x) { _mm512_storeu_pd(to, x); }
  static INTACT_INLINE D add_product(D a, D b, D sum) { return _mm512_fmadd_pd(a, b, sum); }
};

}  // namespace

const MomentsOps moments_avx512 = {moments_loops::widen<Doubles512>, moments_loops::add_products<Doubles512>};

}  // namespace intact
#endif
