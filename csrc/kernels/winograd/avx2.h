// 16 words or 8 sums at a time; Dot is how an instruction set sums products of neighbouring words.
#pragma once

#include "base/vector/avx2.h"
#include "kernels/winograd/generic.h"

namespace intact::winograd {
namespace {

template <class Dot>
void multiply(const WinogradProduct& p) {
  using Set = Neighbours<Avx2, Dot>;
  if (p.width == Set::kSums) return multiply_rows<Set, 1, 6>(p);
  return multiply_rows<Set, 2, 6>(p);
}

template <class Dot>
constexpr WinogradOps avx2_ops_of(const GemmOps* gemm, const WinogradCost& cost) {
  return ops_of<Neighbours<Avx2, Dot>>(gemm, 2, cost, multiply<Dot>);
}

}  // namespace
}  // namespace intact::winograd
