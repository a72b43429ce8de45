// Every kernel of the family against its reference: transpose [feature ...], the features of this machine.
#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels/transpose/transpose.h"

namespace {

using intact::TransposeOps;

struct Kernel {
  const char* name;
  uint64_t needs;
  const TransposeOps& ops;
};

const Kernel kKernels[] = {
#define INTACT_KERNEL(name, needs) {#name, intact::needs, intact::name},
#include "kernels/transpose/kernels.inc"
#undef INTACT_KERNEL
};

size_t differ(const TransposeOps& ops, bool words, size_t rows, size_t columns) {
  const size_t unit = words ? 4 : 1, x_pitch = columns * unit + 8, y_pitch = rows * unit + 4;
  std::vector<uint8_t> x(rows * x_pitch + 64), want(columns * y_pitch + 64, 7), got = want;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 131 + (i >> 8));
  const auto call = [&](const TransposeOps& o, std::vector<uint8_t>& y) {
    (words ? o.words : o.bytes)(x.data(), static_cast<ptrdiff_t>(x_pitch), rows, columns, y.data(),
                                static_cast<ptrdiff_t>(y_pitch));
  };
  call(intact::transpose_ref, want);
  call(ops, got);
  size_t found = 0;
  for (size_t i = 0; i < want.size(); ++i) found += want[i] != got[i];
  return found;
}

}  // namespace

int main(int count, char** features) {
  uint64_t has = 0;
  for (const intact::Feature& f : intact::kFeatures) {
    for (int i = 1; i < count; ++i) has |= std::strcmp(features[i], f.name) == 0 ? f.flag : 0;
  }
  size_t all = 0;
  for (const Kernel& k : kKernels) {
    if ((k.needs & has) != k.needs) continue;
    size_t found = 0;
    for (const size_t rows : {1, 3, 7, 8, 9, 16, 17, 33}) {
      for (const size_t columns : {1, 3, 15, 16, 17, 40}) {
        found += differ(k.ops, false, rows, columns) + differ(k.ops, true, rows, columns);
      }
    }
    std::printf("%s: %zu differ\n", k.name, found);
    all += found;
  }
  return all != 0;
}
