// How a cache stores a row of floats (N72): as they are, as float16, or as int8 codes with a scale.
#pragma once

#include <cstring>

#include "kernels/convert/convert.h"
#include "kernels/dynamic_quantize/dynamic_quantize.h"
#include "kernels/quantize/quantize.h"
#include "base/check.h"
#include "runtime/step.h"

namespace intact {

struct CacheKernels {
  const ConvertOps* convert;
  const DynamicQuantizeOps* dynamic_quantize;
  const QuantizeOps* quantize;
};

class CacheRows {
 public:
  static constexpr size_t kScaleBytes = sizeof(float);  // behind int8 codes of a head

  // Throws std::invalid_argument for rows of another type, or that do not hold `size` floats.
  CacheRows(const CacheKernels& kernels, const View& cache, int64_t size)
      : kernels_(kernels), type_(cache.type), size_(static_cast<size_t>(size)) {
    demand(type_ == Type::f32 || type_ == Type::f16 || type_ == Type::i8,
           "a cache of float32, float16 or int8");
    demand(cache.sizes[1] == size + (type_ == Type::i8 ? int64_t{kScaleBytes} : 0),
           "rows of a cache hold a head");
    const auto width = static_cast<int64_t>(type_ == Type::i8 ? 1 : bytes());
    demand(cache.strides[0] % width == 0 && cache.offset % width == 0,
           "numbers lie at multiples of their size");
  }

  bool are_floats() const { return type_ == Type::f32; }
  size_t row_bytes() const { return type_ == Type::i8 ? size_ + kScaleBytes : size_ * bytes(); }

  void write(const float* x, uint8_t* row) const {
    if (type_ == Type::f32) {
      std::memcpy(row, x, row_bytes());
    } else if (type_ == Type::f16) {
      kernels_.convert->to_f16(x, size_, reinterpret_cast<uint16_t*>(row));
    } else {
      float scale = 1.0f;
      kernels_.dynamic_quantize->int8(x, size_, size_, reinterpret_cast<int8_t*>(row), &scale);
      std::memcpy(row + size_, &scale, kScaleBytes);
    }
  }

  // Floats of rows that lie `down` bytes apart, side by side in y.
  void read(const uint8_t* rows, int64_t down, size_t count, float* y) const {
    if (type_ == Type::f16 && down == static_cast<int64_t>(row_bytes())) {  // one call for all of them
      kernels_.convert->from_f16(reinterpret_cast<const uint16_t*>(rows), count * size_, y);
      return;
    }
    for (size_t i = 0; i < count; ++i, rows += down, y += size_) read_row(rows, y);
  }

 private:
  size_t bytes() const { return type_ == Type::f16 ? sizeof(uint16_t) : sizeof(float); }

  void read_row(const uint8_t* row, float* y) const {
    if (type_ == Type::f32) {
      std::memcpy(y, row, row_bytes());
    } else if (type_ == Type::f16) {
      kernels_.convert->from_f16(reinterpret_cast<const uint16_t*>(row), size_, y);
    } else {
      float scale;
      std::memcpy(&scale, row + size_, kScaleBytes);
      constexpr float kLow = -127.0f, kHigh = 127.0f;
      kernels_.quantize->dequantize(row, size_, {&scale, &kLow, &kHigh, true}, {-127, true}, y);
    }
  }

  CacheKernels kernels_;
  Type type_;
  size_t size_;
};

}  // namespace intact
