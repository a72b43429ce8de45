// Codes of weights in blocks that a file holds in panels, as kernels read them, and in no other form
// (docs/plan-format.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/tensor.h"

namespace intact::engine {

// Rows of codes, and codes of each, at most.
constexpr int64_t kMostBlockElements = int64_t{1} << 24;

struct Panels {
  int64_t inputs = 0, bits = 0;

  // What these codes are called in panels, which tells them from those of equal bytes in other layers.
  std::string form() const;
  // Throws Failure for what stands for no constant of this type and shape.
  void check(const std::string& where, Type type, const Shape& shape) const;
  // Codes of so many outputs that follow each other bit by bit, each output from a byte on: what
  // pack_block_codes packed. Throws Failure for panels of another size.
  std::vector<uint8_t> unpack(const std::string& where, std::span<const uint8_t> packed,
                              int64_t outputs) const;
};

}  // namespace intact::engine
