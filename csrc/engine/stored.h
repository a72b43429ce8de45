// float32 constants that a file holds in fewer bits (docs/plan-format.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace intact::engine {

class Fields;

struct Stored {
  enum class Format : uint8_t { float16, bfloat16, int8, uint8, int4, uint4 };

  Format format = Format::float16;
  std::vector<int64_t> shape, order, scale_shape;  // of codes; axes of the constant; of scales
  int64_t axis = 0, block = 0;
  bool has_zero = false;
  std::span<const uint8_t> codes;
  std::span<const float> scale;   // empty: reals
  std::span<const int16_t> zero;  // empty: none

  int64_t elements() const;
  size_t code_bytes() const;
  int64_t scale_count() const;
  // Throws Failure for what stands for no constant of so many elements.
  void check(const std::string& where, int64_t wanted) const;
  // fl32(q - z) * scale, or the reals, in the constant's order.
  std::vector<float> widened() const;
};

// The record `form`; its arrays are the caller's to add.
Stored read_form(Fields fields);

}  // namespace intact::engine
