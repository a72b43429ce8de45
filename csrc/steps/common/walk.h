// A walk over several views of one shape. Its axes are in the memory order of the last view. Neighbouring
// axes that are contiguous in every view become one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/inline.h"
#include "steps/common/views.h"

namespace intact {

// The axes of a view in memory order, the one with the smallest stride last.
inline std::array<int, kMaxRank> axes_in_memory(const View& v) {
  std::array<int, kMaxRank> axes{};
  for (int i = 0; i < v.rank; ++i) {
    int at = i;
    for (; at > 0 && std::abs(v.strides[axes[at - 1]]) < std::abs(v.strides[i]); --at)
      axes[at] = axes[at - 1];
    axes[at] = i;
  }
  return axes;
}

template <size_t kViews>
struct Walk {
  size_t elements = 0;
  int rank = 1;  // at least 1; the last axis varies fastest in the last view
  std::array<int64_t, kMaxRank> sizes{1};
  std::array<std::array<int64_t, kViews>, kMaxRank> strides{};

  explicit Walk(const std::array<View, kViews>& views) {
    const View& y = views.back();
    for (const View& v : views) demand_same_sizes(v, y);
    elements = elements_of(y);
    for (size_t v = 0; v < kViews; ++v) {
      units_[v] = static_cast<int64_t>(bytes_of(views[v].type));
      strides[0][v] = units_[v];
    }
    if (elements <= 1) return;
    rank = 0;
    const auto axes = axes_in_memory(y);
    for (int i = 0; i < y.rank; ++i) {
      if (y.sizes[axes[i]] > 1) append(views, axes[i]);
    }
  }

  // Whether elements along an axis are neighbours in memory.
  bool dense(size_t view, int axis) const { return strides[axis][view] == units_[view]; }
  bool dense(size_t view) const { return dense(view, rank - 1); }

  size_t size(int axis) const { return static_cast<size_t>(sizes[axis]); }
  // Number of combinations of the first `axes` axes.
  size_t outer(int axes) const {
    size_t n = elements == 0 ? 0 : 1;
    for (int i = 0; i < axes; ++i) n *= size(i);
    return n;
  }

  // Moves an axis to the last place but one.
  void bring(int axis) {
    for (; axis < rank - 2; ++axis) {
      std::swap(sizes[axis], sizes[axis + 1]);
      std::swap(strides[axis], strides[axis + 1]);
    }
  }

 private:
  void append(const std::array<View, kViews>& views, int axis) {
    const int64_t size = views.back().sizes[axis];
    bool even = rank > 0;
    for (size_t v = 0; even && v < kViews; ++v) {
      even = strides[rank - 1][v] == views[v].strides[axis] * size;
    }
    const int to = even ? rank - 1 : rank++;
    sizes[to] = even ? sizes[to] * size : size;
    for (size_t v = 0; v < kViews; ++v) strides[to][v] = views[v].strides[axis];
  }

  std::array<int64_t, kViews> units_{};
};

// Iterates over the first `axes` axes of a walk, from a given combination on.
template <size_t kViews>
class Cursor {
 public:
  // A run makes one: it is not worth a copy in each loop.
  INTACT_APART Cursor(const Walk<kViews>& walk, int axes, size_t index) : walk_(walk), axes_(axes) {
    for (int i = axes - 1; i >= 0; --i) {
      at_[i] = static_cast<int64_t>(index % walk.size(i));
      index /= walk.size(i);
      for (size_t v = 0; v < kViews; ++v) offsets_[v] += at_[i] * walk.strides[i][v];
    }
  }

  // Bytes from the first element of a view.
  ptrdiff_t offset(size_t view) const { return static_cast<ptrdiff_t>(offsets_[view]); }

  void next() {
    for (int i = axes_ - 1; i >= 0; --i) {
      const bool more = ++at_[i] < walk_.sizes[i];
      const int64_t by = more ? 1 : 1 - walk_.sizes[i];
      for (size_t v = 0; v < kViews; ++v) offsets_[v] += by * walk_.strides[i][v];
      if (more) return;
      at_[i] = 0;
    }
  }

 private:
  const Walk<kViews>& walk_;
  int axes_;
  std::array<int64_t, kMaxRank> at_{};
  std::array<int64_t, kViews> offsets_{};
};

// The rows of a walk as pieces of work. Long rows are cut into chunks, and a piece has several short rows,
// so that it costs more than waking a thread.
struct Rows {
  size_t rows = 0, columns = 0;
  size_t chunk = 1;  // columns of a chunk; the last one of a row may have fewer
  size_t chunks = 0; // per row
  size_t each = 1;   // chunks per piece

  Rows() = default;
  Rows(size_t rows_, size_t columns_, size_t most) : rows(rows_), columns(columns_) {
    if (rows == 0 || columns == 0) return;
    chunk = columns < most ? columns : most;
    chunks = (columns + chunk - 1) / chunk;
    each = std::max<size_t>(1, most / chunk);
  }
  size_t items() const { return (rows * chunks + each - 1) / each; }

  // body(row, first column, columns) for every chunk of pieces [begin, end); rows ascend by 0 or 1.
  template <class Body>
  void visit(size_t begin, size_t end, const Body& body) const {
    const size_t first = begin * each, last = std::min(end * each, rows * chunks);
    if (first >= last) return;
    // Counting on avoids a division per row, which takes longer than a short row.
    size_t row = first / chunks, from = first % chunks * chunk;
    for (size_t i = first; i < last; ++i) {
      body(row, from, std::min(chunk, columns - from));
      from += chunk;
      if (from < columns) continue;
      from = 0;
      ++row;
    }
  }
};

// Calls body(byte offset of each view, columns) for every chunk of pieces [begin, end). `rows` are those of
// the walk over its first `axes` axes; columns are along axis `axes`.
template <size_t kViews, class Body>
void visit_rows(const Walk<kViews>& walk, int axes, const Rows& rows, size_t begin, size_t end,
                const Body& body) {
  Cursor<kViews> cursor(walk, axes, begin * rows.each / std::max<size_t>(1, rows.chunks));
  bool started = false;
  rows.visit(begin, end, [&](size_t, size_t from, size_t n) {
    if (started && from == 0) cursor.next();
    started = true;
    std::array<ptrdiff_t, kViews> at;
    for (size_t v = 0; v < kViews; ++v) {
      at[v] = cursor.offset(v) + static_cast<ptrdiff_t>(from) * static_cast<ptrdiff_t>(walk.strides[axes][v]);
    }
    body(at, n);
  });
}

}  // namespace intact
