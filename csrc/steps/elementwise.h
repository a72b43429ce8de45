// Element by element, of tensors of any type: comparisons, logic, choices, casts, arithmetic of integers.
// What each operation means stands in src/intact/numerics/elementwise.py (N53).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "runtime/step.h"

namespace intact {

constexpr size_t kMostOperands = 3;

// y[i] = operation(xs[0][i], ...), n of them. Elements are neighbours; of an operand that does not move, one
// element is for all.
using ElementwiseRow = void (*)(const void* const* xs, size_t n, void* y);

// The row of an operation on operands of type x (of "where": what it chooses from), which makes y. Bit i of
// `moves`: operand i moves. nullptr: there is none.
ElementwiseRow find_elementwise_row(const std::string& operation, Type x, Type y, unsigned moves);
// How many operands an operation has; 0 where nothing is called so.
size_t elementwise_operands(const std::string& operation);

// Views have the sizes of y, may broadcast (strides of 0), and lie in any order of axes.
struct ElementwiseSpec {
  std::string operation;
  std::vector<View> xs;
  View y;
};

// Throws std::invalid_argument for what cannot be run safely.
std::unique_ptr<Step> make_elementwise(const ElementwiseSpec& spec);

}  // namespace intact
