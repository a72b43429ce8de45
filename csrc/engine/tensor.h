// What a plan says about values between steps, and about its constants.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_grid.h"
#include "base/type.h"
#include "engine/axes.h"
#include "engine/dims.h"

namespace intact::engine {

// The grid of a tensor of codes, and which codes can occur.
struct Codes {
  double scale = 1;  // a float32 number
  int zero_point = 0;
  bool is_signed = false;  // int8 codes; else uint8
  int low = 0, high = 255;  // ends of what its producer can write

  // Ends of the codes in its memory: padding writes the zero point.
  int held_low() const { return std::min(low, zero_point); }
  int held_high() const { return std::max(high, zero_point); }
  // Kernels read bytes: byte = code + offset. Codes that are never negative are bytes already.
  int offset() const { return held_low() < 0 ? 128 : 0; }
  // The byte that means 0.0.
  int zero() const { return zero_point + offset(); }
  // What its producer can write, as bytes.
  int byte_low() const { return low + offset(); }
  int byte_high() const { return high + offset(); }
  float scale32() const { return static_cast<float>(scale); }
  int format_low() const { return is_signed ? -128 : 0; }
  int format_high() const { return is_signed ? 127 : 255; }
  bool operator==(const Codes&) const = default;

  // Whether what means a number here means it there.
  bool same_numbers(const Codes& other) const {
    return scale == other.scale && zero_point == other.zero_point && offset() == other.offset();
  }
  // The bytes of the grid, within bounds in codes besides. Steps refuse ends that cross or lie beyond bytes.
  ByteGrid grid(std::optional<double> from = {}, std::optional<double> to = {}) const {
    const double lowest = from ? std::max<double>(low, std::trunc(*from)) : low;
    const double highest = to ? std::min<double>(high, std::trunc(*to)) : high;
    const auto byte = [this](double code) {
      return static_cast<int32_t>(std::clamp(code, -1e6, 1e6)) + offset();
    };
    return {zero(), byte(lowest), byte(highest)};
  }
};

struct TensorRecord {
  std::string name;
  bool is_string = false;  // it lies elsewhere: only a host has these
  Type type = Type::u8;  // of elements in memory: codes are bytes
  std::vector<Dim> shape;
  std::optional<Codes> codes;

  int rank() const { return static_cast<int>(shape.size()); }
  // Bytes of an element in memory of the plan.
  int64_t itemsize() const { return is_string ? 0 : static_cast<int64_t>(bytes_of(type)); }
  // The type in which callers pass and get it: codes are int8 or uint8.
  Type outer_type() const { return codes ? (codes->is_signed ? Type::i8 : Type::u8) : type; }
};

}  // namespace intact::engine
