// Every kernel of this build that this machine has, but those of gemm and matmul, against the plain one of
// its family: for instruction sets that run elsewhere, under an emulator.
#include "families/checks.h"

namespace intact {
namespace {

template <class Ops>
int failures_of(const char* name, uint64_t needs, const Ops& ops) {
  if ((needs & cpu_features()) != needs || !acquire(needs)) return 0;
  constexpr int kTries = 400;
  int failures = 0;
  for (int i = 0; i < kTries; ++i) failures += check(ops) ? 1 : 0;
  std::printf("%s: %d of %d differ\n", name, failures, kTries);
  return failures;
}

}  // namespace
}  // namespace intact

int main() {
  using namespace intact;
  int failures = 0;
  // clang-format off: a path
#define INTACT_FAMILY_FILE(family) INTACT_TEXT(kernels/family/kernels.inc)
  // clang-format on
#define INTACT_KERNEL(name, needs) failures += failures_of(#name, needs, name);
#include "kernels/families.inc"
  return failures != 0;
}
