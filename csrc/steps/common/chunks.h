// Element-wise steps: chunks of the longest rows that are contiguous in all views.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "steps/common/walk.h"

namespace intact {

// The last view is written, the others are read. `declares`: false for a derived step that declares its
// accesses itself.
template <size_t kViews>
class Chunks : public Step {
 public:
  Chunks(const std::array<View, kViews>& views, size_t chunk, bool declares = true)
      : walk_(views), rows_(walk_.outer(walk_.rank - 1), walk_.size(walk_.rank - 1), chunk) {
    for (size_t v = 0; declares && v + 1 < kViews; ++v) reads(views[v]);
    if (declares) writes(views.back());
  }

  size_t items() const override { return rows_.items(); }

 protected:
  // Bytes between neighbours of a row.
  int64_t stride(size_t view) const { return walk_.strides[walk_.rank - 1][view]; }

  // body(byte offset of each view, n).
  template <class Body>
  void each(size_t begin, size_t end, const Body& body) const {
    visit_rows(walk_, walk_.rank - 1, rows_, begin, end, body);
  }

 private:
  Walk<kViews> walk_;
  Rows rows_;
};

}  // namespace intact
