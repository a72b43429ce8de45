#include "kernels/registry.h"

#include <cstring>

namespace intact {
namespace {

template <class Ops>
KernelInfo entry(const char* name, uint64_t needs, const Ops& ops) {
  return {Ops::kFamily, name, needs, &ops};
}

const KernelInfo kKernels[] = {
// clang-format off: a path
#define INTACT_FAMILY_FILE(family) INTACT_TEXT(kernels/family/kernels.inc)
// clang-format on
#define INTACT_KERNEL(name, needs) entry(#name, needs, name),
#include "kernels/families.inc"
#undef INTACT_KERNEL
#undef INTACT_FAMILY_FILE
};

}  // namespace

const KernelInfo* all_kernels(size_t* count) {
  *count = sizeof kKernels / sizeof kKernels[0];
  return kKernels;
}

const char* name_of(const void* ops) {
  for (const KernelInfo& k : kKernels) {
    if (k.ops == ops) return k.name;
  }
  return "";
}

const void* find_kernel(const char* family, const char* name) {
  for (const KernelInfo& k : kKernels) {
    const bool runs = (k.needs & cpu_features()) == k.needs;
    const bool wanted = std::strcmp(k.family, family) == 0 && std::strcmp(k.name, name) == 0;
    if (wanted && runs && acquire(k.needs)) return k.ops;
  }
  return nullptr;
}

}  // namespace intact
