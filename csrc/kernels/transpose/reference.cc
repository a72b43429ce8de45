// The meaning of the family, in the fewest lines.
#include <cstring>

#include "kernels/transpose/transpose.h"

namespace intact {
namespace {

template <size_t kUnit>
void transpose(const uint8_t* x, ptrdiff_t x_pitch, size_t rows, size_t columns, uint8_t* y,
               ptrdiff_t y_pitch) {
  for (size_t r = 0; r < rows; ++r) {
    const uint8_t* from = x + static_cast<ptrdiff_t>(r) * x_pitch;
    uint8_t* to = y + r * kUnit;
    for (size_t c = 0; c < columns; ++c, from += kUnit, to += y_pitch) std::memcpy(to, from, kUnit);
  }
}

}  // namespace

const TransposeOps transpose_ref = {transpose<1>, transpose<4>};

}  // namespace intact
