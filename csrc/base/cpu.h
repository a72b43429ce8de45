// Detects the instruction sets that this machine and its operating system let us use.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64)
#define INTACT_ARCH_X86 1
#else
#define INTACT_ARCH_X86 0
#endif
#if defined(__aarch64__)
#define INTACT_ARCH_NEON 1
#else
#define INTACT_ARCH_NEON 0
#endif

namespace intact {
namespace isa {
constexpr uint64_t none = 0;
constexpr uint64_t avx2 = 1u << 0;
constexpr uint64_t f16c = 1u << 1;
constexpr uint64_t fma = 1u << 2;
constexpr uint64_t avx512 = 1u << 3;  // F, BW, DQ and VL together
constexpr uint64_t vnni = 1u << 4;    // 512 bits wide
constexpr uint64_t neon = 1u << 5;
constexpr uint64_t avxvnni = 1u << 6;  // VNNI on 256 bits, without AVX-512
constexpr uint64_t dotprod = 1u << 7;  // Arm's sums of four products
constexpr uint64_t amx = 1u << 8;      // tiles, and products of bytes in them
}  // namespace isa

struct Feature {
  const char* name;
  uint64_t flag;
};
// Every flag with the name that reports and INTACT_MAX_ISA use.
constexpr Feature kFeatures[] = {
    {"avx2", isa::avx2},       {"f16c", isa::f16c},       {"fma", isa::fma},
    {"avx512", isa::avx512},   {"vnni", isa::vnni},       {"neon", isa::neon},
    {"avxvnni", isa::avxvnni}, {"dotprod", isa::dotprod}, {"amx", isa::amx},
};

// The flags that hold here. Detected once; a register file that the operating system does not save
// (XCR0) counts as missing.
uint64_t cpu_features();

// Asks the operating system for those of `flags` that it hands out on request: AMX's tiles, for the whole
// process. They make every signal's frame larger: nobody asks before a kernel that needs them is looked up.
bool acquire(uint64_t flags);

}  // namespace intact
