#include "engine/caller_arrays.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/failure.h"
#include "steps/copy.h"
#include "steps/dequantize.h"
#include "steps/quantize.h"
#include "steps/table.h"

namespace intact::engine {
namespace {

constexpr int64_t kMostReach = int64_t{1} << 44;  // bytes: sums of a few of these do not overflow

// Signed codes lie 128 above in memory: a byte is the code with its first bit turned.
View turned_signs(Binding& binding) {
  std::array<uint8_t, 256> table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint8_t>(i ^ 128);
  return binding.hold(table.data(), table.size(), Type::u8, {256});
}

// Whether elements overlap: an axis must step over all that the axes with smaller steps reach.
bool overlaps(const Shape& shape, const Axes& strides, int64_t itemsize) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (int i = 0; i < shape.rank; ++i) {
    if (shape[i] > 1) axes.emplace_back(std::abs(strides[i]), shape[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = itemsize;
  for (const auto& [stride, size] : axes) {
    if (stride < reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

}  // namespace

OuterArray outer_array(const Plan& plan, int value, const Shape& shape, const CallerArray& array,
                       bool is_output) {
  const TensorRecord& tensor = plan.tensor(value);
  const int64_t itemsize = array.is_float ? static_cast<int64_t>(sizeof(float)) : tensor.itemsize();
  OuterArray found{value, array.is_float, true, itemsize, dense_strides(shape, itemsize)};
  found.nbytes = product(elements(shape), itemsize);
  if (!array.is_strided) return found;
  const auto refuse = [&](const std::string& want) {
    const std::string where = std::string(is_output ? "output" : "input") + " '" + tensor.name + "'";
    fail(INTACT_BAD_ARGUMENT, where, "strides " + text_of(array.strides) + " for sizes " + text_of(shape),
         want);
  };
  if (array.strides.rank != shape.rank) refuse("one stride for each axis");
  if (found.nbytes == 0) return found;
  Axes strides = array.strides;
  int64_t last = itemsize;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape[i] == 1) strides[i] = found.strides[i];  // it leads nowhere
    if (strides[i] % itemsize != 0)
      refuse("multiples of the element, " + std::to_string(itemsize) + " bytes");
    if (shape[i] == 1) continue;
    const int64_t steps = shape[i] - 1, most = kMostReach / steps;
    if (strides[i] < -most || strides[i] > most) refuse("an array of less than 2^44 bytes");
    (strides[i] < 0 ? found.first : last) += steps * strides[i];
    if (last - found.first > kMostReach) refuse("an array of less than 2^44 bytes");
  }
  if (is_output && overlaps(shape, strides, itemsize)) refuse("elements that do not overlap");
  found.is_dense = strides == found.strides;
  found.strides = strides;
  found.nbytes = last - found.first;
  return found;
}

std::unique_ptr<Step> copy_outer(Binding& binding, const OuterArray& array, uint32_t block, bool to_arena) {
  const Codes* const codes = binding.grid(array.value);
  const View inside = binding.view(array.value);
  View outside = dense_view(block, static_cast<size_t>(-array.first),
                            array.is_float ? Type::f32 : inside.type, binding.shape(array.value));
  outside.strides = view_axes(array.strides);
  const View &x = to_arena ? outside : inside, &y = to_arena ? inside : outside;
  const QuantizeOps& quantize = *binding.kernels.quantize;
  const TransposeOps& transpose = *binding.kernels.transpose;
  if (!array.is_float) {
    if (codes == nullptr || codes->offset() == 0) return make_copy(transpose, {x, y});
    return make_table(*binding.kernels.pointwise, {x, turned_signs(binding), y});
  }
  if (to_arena) return make_quantize(quantize, transpose, {x, y, codes->scale32(), codes->grid()});
  return make_dequantize(quantize, transpose, {x, y, codes->scale32(), codes->zero()});
}

}  // namespace intact::engine
