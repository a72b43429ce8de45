#include "kernels/registry.h"

#include <cstring>
#include <string_view>

// What a library for a few models has (csrc/engine/choice.cmake): instructions, and families beside their
// plain C++. Unless somebody chooses, all of both.
#ifndef INTACT_BUILT_ISA
#define INTACT_BUILT_ISA (~uint64_t{0})
#endif
#ifndef INTACT_BUILT_FAMILIES
#define INTACT_BUILT_FAMILIES ""
#endif

namespace intact {
namespace {

constexpr uint64_t kNowhere = ~uint64_t{0};  // needs that no machine meets

constexpr bool is_built(std::string_view family, uint64_t needs) {
  if (needs == isa::none) return true;
  if ((needs & ~uint64_t{INTACT_BUILT_ISA}) != 0) return false;
  for (std::string_view rest = INTACT_BUILT_FAMILIES; !rest.empty();) {
    const std::string_view first = rest.substr(0, rest.find(','));
    if (first == family) return true;
    rest.remove_prefix(first.size() < rest.size() ? first.size() + 1 : rest.size());
    if (rest.empty()) return false;
  }
  return true;
}

// Of a kernel that is not built nothing but its name is left.
template <bool kBuilt, class Ops>
constexpr KernelInfo entry(const char* name, uint64_t needs, const Ops* ops) {
  return {Ops::kFamily, name, kBuilt ? needs : kNowhere, ops};
}

const KernelInfo kKernels[] = {
// clang-format off: a path
#define INTACT_FAMILY_FILE(family) INTACT_TEXT(kernels/family/kernels.inc)
// clang-format on
#define INTACT_KERNEL(name, needs)                                                \
  entry<is_built(decltype(name)::kFamily, needs)>(#name, needs,                   \
                                                  is_built(decltype(name)::kFamily, needs) ? &name : nullptr),
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
