// What a product of two activations is, alone and within attention.
#pragma once

#include "engine/kinds/fusible.h"
#include "steps/matmul.h"

namespace intact::engine {

// Operands under the leading axes of the product's shape. `a` and `y` are the step's own where they are not
// given.
MatMulSpec product_spec(const MatMul& step, Binding& binding, const View& a, int32_t a_zero, const View& y);
// The matrices of a tensor or a constant under the leading axes of `shape`.
View matrices_under(int value, const Shape& shape, Binding& binding);

}  // namespace intact::engine
