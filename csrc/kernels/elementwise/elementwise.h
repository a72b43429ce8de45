// Operations on elements of any type: comparisons, logic, choices, casts, arithmetic of integers and of
// float64, rounding of float32. numerics/elementwise.py (N53) defines each. All kernels give the same bits
// (of a NaN only that it is one). No alignment is needed; y may be an operand with a stride.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/type.h"

namespace intact {

// The names of numerics; names that are keywords of C++ have the prefix "logical_".
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
