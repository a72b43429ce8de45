// Indices that are read during a run: single ones, and tuples that index rows of an array.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "steps/common/lines.h"

namespace intact {

// The index in [0, size); a negative one counts from the end. Others fail the run and return 0.
inline int64_t index_within(int64_t index, int64_t size, const Memory& memory) {
  if (index < 0) index += size;
  if (0 <= index && index < size) return index;
  memory.fail();
  return 0;
}

// Tuples of indices as row numbers.
class RowIndex {
 public:
  RowIndex(const View& index, std::vector<int64_t> sizes) : index_(index), sizes_(std::move(sizes)) {
    demand(is_index(index) && index.rank == 2, "indices are int32 or int64, one tuple in each row");
    demand(index.sizes[1] == static_cast<int64_t>(sizes_.size()), "each number of a tuple has a size");
    elements_of(index);
    for (const int64_t size : sizes_) {
      demand(0 <= size && size < kMostElements && rows_ <= kMostElements / std::max<int64_t>(1, size),
             "a size is out of range");
      rows_ *= size;
    }
    demand(rows_ > 0 || index.sizes[0] == 0, "there are no rows");
  }

  int64_t count() const { return index_.sizes[0]; }
  int64_t rows() const { return rows_; }

  int64_t row(const Memory& memory, int64_t i) const {
    const uint8_t* at = index_.at<uint8_t>(memory) + i * index_.strides[0];
    int64_t row = 0;
    for (const int64_t size : sizes_) {
      row = row * size + index_within(index_at(index_, at), size, memory);
      at += index_.strides[1];
    }
    return row;
  }

 private:
  View index_;
  std::vector<int64_t> sizes_;
  int64_t rows_ = 1;
};

// A row of a matrix.
template <class T>
T* row_of(const View& v, const Memory& memory, int64_t row) {
  return reinterpret_cast<T*>(v.at<uint8_t>(memory) + row * v.strides[0]);
}

inline void demand_rows(const View& v) {
  demand(v.rank == 2, "rows are those of a matrix");
  demand(v.sizes[1] < 2 || v.strides[1] == static_cast<int64_t>(bytes_of(v.type)),
         "rows do not lie side by side");
  elements_of(v);
}

}  // namespace intact
