// Addresses within images [images, rows, columns, channels].
#pragma once

#include <cstdint>

#include "runtime/step.h"

namespace intact {

// The channels of a pixel, which is counted through the rows of its image.
inline float* pixel_of(const View& y, const Memory& memory, int64_t image, int64_t pixel) {
  const int64_t row = pixel / y.sizes[2], column = pixel % y.sizes[2];
  const int64_t offset = image * y.strides[0] + row * y.strides[1] + column * y.strides[2];
  return reinterpret_cast<float*>(y.at<uint8_t>(memory) + offset);
}

}  // namespace intact
