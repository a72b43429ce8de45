#include "engine/stored.h"

#include <algorithm>
#include <cstring>

#include "engine/axes.h"
#include "engine/failure.h"
#include "engine/fields.h"

namespace intact::engine {
namespace {

constexpr const char* kFormats[] = {"float16", "bfloat16", "int8", "uint8", "int4", "uint4"};
constexpr int64_t kBits[] = {16, 16, 8, 8, 4, 4};

float float_of(uint32_t bits) {
  float found;
  std::memcpy(&found, &bits, sizeof found);
  return found;
}

// Exact: every half is a float.
float from_half(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
  if (exponent == 31) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

}  // namespace

int64_t Stored::elements() const { return product(shape); }
int64_t Stored::scale_count() const { return product(scale_shape); }
size_t Stored::code_bytes() const {
  return static_cast<size_t>((product(elements(), kBits[static_cast<size_t>(format)]) + 7) / 8);
}

void Stored::check(const std::string& where, int64_t wanted) const {
  const size_t rank = shape.size();
  std::vector<int64_t> axes = order;
  std::sort(axes.begin(), axes.end());
  bool sound = elements() == wanted && axes.size() == rank && rank <= 16;
  for (size_t i = 0; i < rank && sound; ++i) sound = shape[i] > 0 && axes[i] == static_cast<int64_t>(i);
  if (sound && (format == Format::float16 || format == Format::bfloat16)) {
    sound = scale_shape.empty() && axis == 0 && block == 0 && !has_zero;
  } else if (sound) {
    sound = scale_shape.size() == rank && 0 <= axis && axis < static_cast<int64_t>(rank) && block >= 0;
    for (size_t i = 0; i < rank && sound; ++i) {
      const bool shares = block > 0 && static_cast<int64_t>(i) == axis;
      const int64_t most = shares ? (shape[i] - 1) / block + 1 : shape[i];
      sound = scale_shape[i] == 1 || scale_shape[i] == most;
    }
  }
  if (!sound) fail_file(where, "another form", "a form of such a constant");
}

std::vector<float> Stored::widened() const {
  const auto count = static_cast<size_t>(elements());
  const size_t rank = shape.size();
  std::vector<int64_t> strides(rank), scales(rank), sizes(rank);
  for (size_t i = rank, step = 1, scale_step = 1; i-- > 0;) {
    strides[i] = static_cast<int64_t>(step);
    step *= static_cast<size_t>(shape[i]);
    if (scale_shape.empty()) continue;
    scales[i] = scale_shape[i] == 1 ? 0 : static_cast<int64_t>(scale_step);
    scale_step *= static_cast<size_t>(scale_shape[i]);
  }
  const auto code_at = [this](int64_t i) -> float {
    const auto at = static_cast<size_t>(i);
    uint16_t word = 0;
    switch (format) {
      case Format::float16: std::memcpy(&word, &codes[2 * at], 2); return from_half(word);
      case Format::bfloat16: std::memcpy(&word, &codes[2 * at], 2); return float_of(uint32_t{word} << 16);
      case Format::int8: return static_cast<int8_t>(codes[at]);
      case Format::uint8: return codes[at];
      default: break;
    }
    const int half = at % 2 == 0 ? codes[at / 2] & 15 : codes[at / 2] >> 4;
    return static_cast<float>(format == Format::int4 && half > 7 ? half - 16 : half);
  };
  std::vector<float> found(count);
  std::vector<int64_t> index(rank, 0);  // in the constant's order
  for (size_t n = 0; n < count; ++n) {
    int64_t at = 0, scale_at = 0;
    for (size_t i = 0; i < rank; ++i) {
      const auto axis_of = static_cast<size_t>(order[i]);
      at += index[i] * strides[axis_of];
      const bool shares = block > 0 && static_cast<int64_t>(axis_of) == axis;
      scale_at += (shares ? index[i] / block : index[i]) * scales[axis_of];
    }
    float value = code_at(at);
    if (!zero.empty()) value -= static_cast<float>(zero[static_cast<size_t>(scale_at)]);
    if (!scale.empty()) value *= scale[static_cast<size_t>(scale_at)];
    found[n] = value;
    for (size_t i = rank; i-- > 0 && ++index[i] == shape[static_cast<size_t>(order[i])];) index[i] = 0;
  }
  return found;
}

Stored read_form(Fields fields) {
  Stored found;
  const std::string format = fields.one_of("dtype", kFormats);
  const auto* const named = std::find(std::begin(kFormats), std::end(kFormats), format);
  found.format = static_cast<Stored::Format>(named - std::begin(kFormats));
  found.shape = fields.integers("shape");
  found.order = fields.integers("order");
  found.scale_shape = fields.integers("scale");
  found.axis = fields.integer("axis");
  found.block = fields.integer("block");
  found.has_zero = fields.truth("zero");
  fields.finish();
  return found;
}

}  // namespace intact::engine
