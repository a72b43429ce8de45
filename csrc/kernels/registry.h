// Every kernel of the build, family by family, best first. Python chooses one of each family once
// (INTACT_MAX_ISA, INTACT_FORCE_KERNEL), never inside a loop.
#pragma once

#include <cstddef>
#include <cstdint>

#define INTACT_TEXT(x) #x
// clang-format off: a path
#define INTACT_FAMILY_FILE(family) INTACT_TEXT(kernels/family/family.h)
// clang-format on
#include "kernels/families.inc"
#undef INTACT_FAMILY_FILE

namespace intact {

struct KernelInfo {
  const char* family;
  const char* name;
  uint64_t needs;  // isa:: flags; 0 runs everywhere
  const void* ops;
};

// All kernels; `*count` receives their number. Kernels of a family are neighbours.
const KernelInfo* all_kernels(size_t* count);

// The ops of the kernel of a family called `name`, or nullptr when this build or this machine has no such
// kernel, or the operating system does not let it run.
const void* find_kernel(const char* family, const char* name);
template <class Ops>
const Ops* find_kernel(const char* name) {
  return static_cast<const Ops*>(find_kernel(Ops::kFamily, name));
}

// The name of the kernel with these ops.
const char* name_of(const void* ops);

}  // namespace intact
