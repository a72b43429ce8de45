// Codes by ranges that the values themselves have (N68).
#pragma once

#include <memory>
#include <optional>

#include "kernels/dynamic_quantize/dynamic_quantize.h"
#include "kernels/reduce/reduce.h"
#include "runtime/step.h"

namespace intact {

// Rows have neighbours side by side.
struct DynamicQuantizeSpec {
  View x;      // f32 [rows, n]
  View codes;  // i8, or u8 with zeros, [rows, n]
  View scales;  // f32 [rows, blocks], or [1, 1] where all of x has one range
  std::optional<View> zeros;  // u8, likewise
  int64_t block;  // elements of a range; 0: all of x
  // f32 [range_parts(x), 2]: the ends of parts of x, where block is 0 and several threads find the range. The
  // first step writes them, and the second one scales and zeros.
  std::optional<View> parts = {};
};

// How many parts of x are worth a thread each: 1 for a few values.
int64_t range_parts(const View& x);

// The step that finds the range of all of x, which must run before the other one if block is 0.
std::unique_ptr<Step> make_dynamic_range(const ReduceOps& ops, const DynamicQuantizeSpec& spec);
// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_dynamic_quantize(const DynamicQuantizeOps& ops, const DynamicQuantizeSpec& spec);

}  // namespace intact
