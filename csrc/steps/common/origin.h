// Where elements lie, once sizes are checked: a tenth of a view. A program keeps thousands of them for each
// set of sizes.
#pragma once

#include "runtime/view.h"

namespace intact {

// Element 0 of a view.
class Origin {
 public:
  explicit Origin(const View& v) : offset_(v.offset), block_(v.block) {}

  template <class T>
  T* at(const Memory& memory) const {
    return reinterpret_cast<T*>(memory.block(block_) + offset_);
  }

 private:
  size_t offset_;
  uint32_t block_;
};

// The rows of a matrix.
class RowOrigins {
 public:
  explicit RowOrigins(const View& v) : first_(v), down_(v.strides[0]) {}

  template <class T>
  T* at(const Memory& memory, int64_t row) const {
    return reinterpret_cast<T*>(first_.at<uint8_t>(memory) + row * down_);
  }

 private:
  Origin first_;
  int64_t down_;
};

}  // namespace intact
