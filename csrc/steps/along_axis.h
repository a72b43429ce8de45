// Along one axis: folds, running sums, the place of the largest element, values between elements.
#pragma once

#include <memory>
#include <vector>

#include "kernels/transpose/transpose.h"
#include "runtime/step.h"

namespace intact {

// y = x[0] + x[1] + ... along the axis, or their product, or the largest or smallest of them, one after the
// other; integers wrap around. Of no elements 0, 1, the lowest and the highest number.
enum class FoldKind : uint8_t { sum, prod, max, min };
struct FoldSpec {
  View x, y;  // of one type: i32, i64, or f32 for products; the axis has size 1 in y
  int axis;
  FoldKind kind;
};

// y[k] = x[0] + ... + x[k] along the axis, one sum after the other, each rounded; integers wrap around.
struct CumSumSpec {
  View x, y;  // of one type: f32, i32 or i64
  int axis;
  bool exclusive;  // without x[k] itself: y[0] is 0
  bool reverse;  // from the end
};

// Where along the axis the largest element stands: of equal ones the first, or the last. A NaN is larger, and
// smaller, than any number.
struct ArgMaxSpec {
  View x, y;  // y is i64, and the axis has size 1 there
  int axis;
  bool smallest, last;
};

// y[i] = the sum of x[places[i * terms + k]] * weights[i * terms + k] over k, in their order: every product
// and every sum is rounded.
struct InterpolateSpec {
  View x, y;  // f32, of one size along all other axes
  int axis;
  std::vector<int64_t> places;
  std::vector<float> weights;
  size_t terms;  // at least one
};

// All throw std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_fold(const FoldSpec& spec);
std::unique_ptr<Step> make_cum_sum(const CumSumSpec& spec);
std::unique_ptr<Step> make_arg_max(const TransposeOps& turn, const ArgMaxSpec& spec);
std::unique_ptr<Step> make_interpolate(InterpolateSpec spec);

}  // namespace intact
