// Operations on elements of any type: comparisons, logic, choices, casts, arithmetic of integers and of
// float64, rounding of float32. numerics/operations.py (N53) says what each means. All kernels give the
// same bits (of a NaN: that it is one). No alignment needed; y may be an operand that moves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/type.h"

namespace intact {

// What numerics calls them; those that are words of C++, with "logical_" before.
enum class ElementwiseOperation : uint8_t {
  abs,
  add,
  logical_and,
  cast,
  ceil,
  div,
  equal,
  exp,
  floor,
  fmod,
  greater,
  greater_or_equal,
  is_inf,
  is_nan,
  is_neg_inf,
  is_pos_inf,
  less,
  less_or_equal,
  max,
  min,
  mod,
  mul,
  neg,
  logical_not,
  logical_or,
  round,
  sub,
  where,
  logical_xor
};

// y[i] = operation(xs[0][i], ...), n of them. Elements are neighbours; of an operand that does not move, one
// element is for all.
using ElementwiseRow = void (*)(const void* const* xs, size_t n, void* y);

struct NamedElementwise {
  const char* name;  // of numerics
  size_t operands;
  ElementwiseOperation operation;
};

struct ElementwiseOps {
  static constexpr const char* kFamily = "elementwise";
  // The row of an operation on operands of type x (of `where`: what it chooses from), which makes y. Bit i of
  // `moves`: operand i moves. nullptr: there is none.
  ElementwiseRow (*find)(ElementwiseOperation operation, Type x, Type y, unsigned moves);
};

// The operation called `name`, or nullptr.
const NamedElementwise* find_elementwise(const char* name);

#define INTACT_KERNEL(name, needs) extern const ElementwiseOps name;
#include "kernels/elementwise/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
