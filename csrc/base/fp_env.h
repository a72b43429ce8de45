// Numerics must not depend on what another library left in the control register.
#pragma once

#include "base/cpu.h"

#if INTACT_ARCH_X86
#include <xmmintrin.h>
#endif

namespace intact {

// While alive: round to nearest even, denormals kept, no traps. Frameworks set flush-to-zero, and
// threads inherit it.
class ScopedFpEnv {
 public:
#if INTACT_ARCH_X86
  ScopedFpEnv() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~ScopedFpEnv() { _mm_setcsr(saved_); }
#else
  ScopedFpEnv() {}
  ~ScopedFpEnv() {}
#endif
  ScopedFpEnv(const ScopedFpEnv&) = delete;
  ScopedFpEnv& operator=(const ScopedFpEnv&) = delete;

#if INTACT_ARCH_X86
 private:
  unsigned saved_;
#endif
};

}  // namespace intact
