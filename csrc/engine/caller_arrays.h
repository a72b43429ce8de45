// The caller's arrays of inputs and outputs: dense and of the port's type, unless the caller says otherwise.
#pragma once

#include <memory>
#include <vector>

#include "engine/binding.h"

namespace intact::engine {

// What a caller says about the arrays of one input or output.
struct CallerArray {
  bool is_float = false;  // float32, where the plan has codes
  bool is_strided = false;  // as `strides` say, which are bytes in ONNX's order of axes; else dense
  Axes strides;
  bool operator==(const CallerArray&) const = default;
};

// Of all ports in order; ports beyond the end of a list have what the plan says.
struct CallerArrays {
  std::vector<CallerArray> inputs, outputs;
  bool operator==(const CallerArrays&) const = default;
};

// The array of an input or output once its sizes are known.
struct OuterArray {
  int value = kNoValue;  // the tensor
  bool is_float = false, is_dense = true;
  int64_t itemsize = 0;
  Axes strides;  // bytes, in ONNX's order of axes
  int64_t first = 0;  // bytes from element (0, ..., 0) to the lowest address that is touched: 0 or less
  int64_t nbytes = 0;  // from there to the end of the highest element
};

// Throws Failure (INTACT_BAD_ARGUMENT) for strides that no array of these sizes can have: too few or too
// many, no multiples of the element, beyond 2^44 bytes, or of an output whose elements overlap.
OuterArray outer_array(const Plan& plan, int value, const Shape& shape, const CallerArray& array,
                       bool is_output);

// Returns the native step that copies between a caller's array, a block of the program, and the tensor:
// codes have other bytes in memory (Codes::offset), and floats become codes (N11) or codes floats (N12).
std::unique_ptr<Step> copy_outer(Binding& binding, const OuterArray& array, uint32_t block, bool to_arena);

}  // namespace intact::engine
