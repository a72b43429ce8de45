#include "base/cpu.h"

#if INTACT_ARCH_X86
#if defined(_MSC_VER)
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace intact {
namespace {

#if INTACT_ARCH_X86
struct Registers {
  uint32_t a, b, c, d;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r = {0, 0, 0, 0};
#if defined(_MSC_VER)
  int values[4];
  __cpuidex(values, static_cast<int>(leaf), static_cast<int>(subleaf));
  r = {static_cast<uint32_t>(values[0]), static_cast<uint32_t>(values[1]), static_cast<uint32_t>(values[2]),
       static_cast<uint32_t>(values[3])};
#else
  __cpuid_count(leaf, subleaf, r.a, r.b, r.c, r.d);
#endif
  return r;
}

uint64_t saved_register_files() {
#if defined(_MSC_VER)
  return _xgetbv(0);
#else
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
#endif
}

bool bit(uint32_t word, int position) { return (word >> position) & 1u; }

// Linux's, as arch/x86/include/uapi/asm/prctl.h has them; older headers do not.
#if defined(__linux__)
constexpr long kGetSupported = 0x1021, kRequest = 0x1023;
constexpr long kTileData = 18;  // a bit of XCR0

bool offers_tiles() {
  uint64_t supported = 0;
  return syscall(SYS_arch_prctl, kGetSupported, &supported) == 0 && ((supported >> kTileData) & 1u) != 0;
}
bool request_tiles() { return syscall(SYS_arch_prctl, kRequest, kTileData) == 0; }
#else
bool offers_tiles() { return false; }
bool request_tiles() { return false; }
#endif

uint64_t detect() {
  if (cpuid(0, 0).a < 7) return isa::none;
  const Registers basic = cpuid(1, 0);
  const Registers extended = cpuid(7, 0);
  const bool osxsave = bit(basic.c, 27);
  const uint64_t saved = osxsave ? saved_register_files() : 0;
  const bool ymm = bit(basic.c, 28) && (saved & 0x06) == 0x06;
  const bool zmm = ymm && (saved & 0xe0) == 0xe0;
  const bool foundation =
      bit(extended.b, 16) && bit(extended.b, 17) && bit(extended.b, 30) && bit(extended.b, 31);
  uint64_t found = isa::none;
  if (ymm && bit(extended.b, 5) && bit(basic.c, 12)) found |= isa::avx2;  // kernels of it fuse products
  if (ymm && bit(basic.c, 29)) found |= isa::f16c;
  if (ymm && bit(basic.c, 12)) found |= isa::fma;
  if (zmm && foundation) found |= isa::avx512;
  if (zmm && foundation && bit(extended.c, 11)) found |= isa::vnni;
  if (ymm && extended.a >= 1 && bit(cpuid(7, 1).a, 4)) found |= isa::avxvnni;
  const bool tiles = (saved & 0x60000) == 0x60000 && bit(extended.d, 24) && bit(extended.d, 25);
  if (zmm && tiles && offers_tiles()) found |= isa::amx;
  return found;
}
#elif defined(__aarch64__) || defined(_M_ARM64)
// NEON is part of the base architecture.
uint64_t detect() {
#if defined(__linux__)
  return isa::neon | ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? isa::dotprod : isa::none);
#elif defined(__APPLE__)
  return isa::neon | isa::dotprod;  // since the first of these machines
#else
  return isa::neon;
#endif
}
#else
uint64_t detect() { return isa::none; }
#endif

}  // namespace

uint64_t cpu_features() {
  static const uint64_t found = detect();
  return found;
}

bool acquire([[maybe_unused]] uint64_t flags) {
#if INTACT_ARCH_X86
  if ((flags & isa::amx) != 0) {
    static const bool granted = request_tiles();
    return granted;
  }
#endif
  return true;
}

}  // namespace intact
