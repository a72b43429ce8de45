// Scratch for rows of floats that are strided, or converted from or to codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace intact {

// Bytes of scratch for a row of n floats, and for its n bytes.
constexpr size_t row_scratch(size_t n) { return (n * 5 + 127) / 64 * 64; }

class RowBuffer {
 public:
  RowBuffer(uint8_t* scratch, size_t n, size_t index) : memory_(scratch + index * row_scratch(n)), n_(n) {}
  float* floats() const { return reinterpret_cast<float*>(memory_); }
  uint8_t* bytes() const { return memory_ + n_ * sizeof(float); }

 private:
  uint8_t* memory_;
  size_t n_;
};

}  // namespace intact
