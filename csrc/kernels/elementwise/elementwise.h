// Operations on elements of any type: comparisons, logic, choices, casts, arithmetic of integers and of
// float64, rounding of float32. numerics/elementwise.py (N53) defines each. All kernels give the same bits
// (of a NaN only that it is one). No alignment is needed; y may be an operand with a stride.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/type.h"

namespace intact {

// Every operation: its name in numerics, its operands, its name here ("logical_" before keywords of C++).
// clang-format off
#define INTACT_ELEMENTWISE(X) \
  X("abs", 1, abs) \
  X("add", 2, add) \
  X("and", 2, logical_and) \
  X("bitwise_and", 2, bitwise_and) \
  X("cast", 1, cast) \
  X("ceil", 1, ceil) \
  X("div", 2, div) \
  X("equal", 2, equal) \
  X("exp", 1, exp) \
  X("floor", 1, floor) \
  X("fmod", 2, fmod) \
  X("greater", 2, greater) \
  X("greater_or_equal", 2, greater_or_equal) \
  X("is_inf", 1, is_inf) \
  X("is_nan", 1, is_nan) \
  X("is_neg_inf", 1, is_neg_inf) \
  X("is_pos_inf", 1, is_pos_inf) \
  X("less", 2, less) \
  X("less_or_equal", 2, less_or_equal) \
  X("max", 2, max) \
  X("min", 2, min) \
  X("mod", 2, mod) \
  X("mul", 2, mul) \
  X("neg", 1, neg) \
  X("not", 1, logical_not) \
  X("or", 2, logical_or) \
  X("round", 1, round) \
  X("sub", 2, sub) \
  X("where", 3, where) \
  X("xor", 2, logical_xor)
// clang-format on

enum class ElementwiseOperation : uint8_t {
#define INTACT_OPERATION(name, operands, operation) operation,
  INTACT_ELEMENTWISE(INTACT_OPERATION)
#undef INTACT_OPERATION
};

// y[i] = operation(xs[0][i], ...) for n dense elements. An operand that does not move has one element for
// all.
using ElementwiseRow = void (*)(const void* const* xs, size_t n, void* y);

struct NamedElementwise {
  const char* name;  // of numerics
  size_t operands;
  ElementwiseOperation operation;
};

struct ElementwiseOps {
  static constexpr const char* kFamily = "elementwise";
  // The row function for operands of type x (for `where`: the values) and results of type y. Bit i of
  // `moves`: operand i moves. nullptr if there is none.
  ElementwiseRow (*find)(ElementwiseOperation operation, Type x, Type y, unsigned moves);
};

// The operation called `name`, or nullptr.
const NamedElementwise* find_elementwise(const char* name);

#define INTACT_KERNEL(name, needs) extern const ElementwiseOps name;
#include "kernels/elementwise/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
