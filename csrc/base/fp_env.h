// Numerics must not depend on what another library left in the control register.
#pragma once

#include <cstdint>

#include "base/cpu.h"

#if INTACT_ARCH_X86
#include <xmmintrin.h>
#endif

namespace intact {

// While alive: round to nearest even, denormals kept, no traps. Frameworks set flush-to-zero, and
// threads inherit it.
class ScopedFpEnv {
 public:
  ScopedFpEnv() : saved_(get()) { set(kPlain); }
  ~ScopedFpEnv() { set(saved_); }
  ScopedFpEnv(const ScopedFpEnv&) = delete;
  ScopedFpEnv& operator=(const ScopedFpEnv&) = delete;

 private:
#if INTACT_ARCH_X86
  using Register = unsigned;
  static constexpr Register kPlain = 0x1f80;
  static Register get() { return _mm_getcsr(); }
  static void set(Register value) { _mm_setcsr(value); }
#elif INTACT_ARCH_NEON
  using Register = uint64_t;
  static constexpr Register kPlain = 0;
  static Register get() {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set(Register value) { asm volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
#else
  using Register = int;
  static constexpr Register kPlain = 0;
  static Register get() { return 0; }
  static void set(Register) {}
#endif

  Register saved_;
};

}  // namespace intact
