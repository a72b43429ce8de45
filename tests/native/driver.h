// Shared parts of the programs that compare the kernels of one family with its plain one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/step.h"

namespace intact {

template <class Ops>
struct Named {
  const char* name;
  const Ops* ops;
};

inline std::mt19937 random_bits(7);

inline int pick(int low, int high) {
  return low + static_cast<int>(random_bits() % static_cast<unsigned>(high - low + 1));
}

// All of a step, with scratch where it wants it.
inline void run_whole(const Step& step, uint8_t* const* blocks) {
  std::vector<uint8_t> scratch(step.scratch() + 64);
  uint8_t* aligned = scratch.data();
  while (reinterpret_cast<uintptr_t>(aligned) % 64 != 0) ++aligned;
  step.run(Memory(blocks), 0, step.items(), aligned);
}

// Tries each kernel, or the one of the command line, so many times, and prints; the program's exit status.
template <class Ops, size_t kCount, class Differs>
int compare(const Named<Ops> (&kernels)[kCount], int count, char** arguments, int tries, const char* what,
            Differs differs) {
  int failures = 0, tried = 0;
  for (const Named<Ops>& kernel : kernels) {
    if (count > 1 && std::strcmp(arguments[1], kernel.name) != 0) continue;
    ++tried;
    for (int i = 0; i < tries; ++i) failures += differs(*kernel.ops) ? 1 : 0;
    std::printf("%s: %d of %d %s differ\n", kernel.name, failures, tries, what);
  }
  return failures != 0 || tried == 0 ? 1 : 0;
}

}  // namespace intact
