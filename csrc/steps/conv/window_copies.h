// Copies of windows for kernels of 16-bit sums. Panels that need them read windows as 16-bit words, or as
// inlier bytes (GemmSplit) with lists of outliers. Rows with too many outliers are copied as words.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/tuning.h"
#include "kernels/gemm/gemm.h"
#include "runtime/step.h"

namespace intact {

// Tiles of nearly equal height. The first `taller` tiles have one row more.
struct RowTiles {
  int number, rows, taller;

  RowTiles(int count, int most)
      : number((count + most - 1) / most), rows(count / number), taller(count % number) {}
  int height(int tile) const { return rows + (tile < taller ? 1 : 0); }
};

class WindowCopies {
 public:
  // The copies of one group of channels, in the scratch of a thread.
  struct Rows {
    const int16_t* words = nullptr;
    const uint8_t* const* x = nullptr;  // copies as bytes; nullptr: as words
    GemmOutliers outliers{};
    const int32_t* ends = nullptr;  // where the outliers of each tile end; the first entry is 0
  };

  bool any() const { return !runs_.empty(); }
  int64_t rows() const { return rows_; }
  int64_t pitch() const { return pitch_; }
  int32_t base() const { return base_; }

  // What is taken off every byte that is copied.
  static int32_t base_of(bool splits, int32_t zero) {
    return splits ? std::clamp(zero - kInliers / 2, 0, 256 - kInliers) : 0;
  }
  // Sets what is copied. `runs`: as in GemmCopy. `zero`: the byte around which most bytes lie, for the split.
  void need(std::vector<int32_t> runs, bool splits, int32_t zero) {
    pitch_ = 0;
    for (size_t i = 1; i < runs.size(); i += 2) pitch_ += int64_t{4} * runs[i];
    runs_ = std::move(runs);
    splits_ = splits;
    base_ = base_of(splits, zero);
  }

  // Sets the number of rows that are copied at a time, so that copies fit the first cache.
  void cut(int64_t tile, int64_t most) {
    if (!any()) return;
    const int64_t rows = tuning::conv_panels::kCopiedBytes / (2 * pitch_) / tile * tile;
    rows_ = std::min(std::max(rows, tile), most);
    tile_ = tile;
  }

  size_t bytes() const { return parts().end; }

  Rows copy(const GemmOps& kernel, const uint8_t* const* x, ptrdiff_t x_offset, int rows,
            uint8_t* scratch) const {
    const GemmCopy all{runs_.data(), static_cast<int32_t>(runs_.size() / 2), x, x_offset, rows, pitch_,
                       base_};
    Rows rows_of_bytes;
    if (splits_ && split(kernel, all, scratch, rows_of_bytes)) return rows_of_bytes;
    auto* const words = reinterpret_cast<int16_t*>(scratch);
    kernel.widen(all, words);
    return {words};
  }

 private:
  static constexpr int64_t kSpare = 16;  // most list entries of 8 steps of a row

  struct Parts {
    size_t inliers, pointers, ends, lists, end;
  };

  // The most outliers that so many rows may have.
  int32_t most_outliers(int64_t rows) const {
    return static_cast<int32_t>(pitch_ / 4 * rows / tuning::conv_panels::kStepsOfOutlier);
  }

  // Entries of a list: room for 8 more steps of each row of a tile than are used.
  int64_t room() const { return most_outliers(rows_) + kSpare * tile_; }

  Parts parts() const {
    const auto rows = static_cast<size_t>(rows_), elements = static_cast<size_t>(pitch_) * rows;
    Parts p{};
    p.inliers = p.end = align64(sizeof(int16_t) * elements);
    if (!splits_) return p;
    p.pointers = p.inliers + align64(elements);
    p.ends = p.pointers + align64(sizeof(void*) * rows);
    p.lists = p.ends + align64(sizeof(int32_t) * (rows + 1));
    p.end = p.lists + align64(4 * sizeof(int32_t) * static_cast<size_t>(room()));
    return p;
  }

  bool split(const GemmOps& kernel, GemmCopy copy, uint8_t* scratch, Rows& result) const {
    const Parts p = parts();
    uint8_t* inliers = scratch + p.inliers;
    auto** const pointers = reinterpret_cast<const uint8_t**>(scratch + p.pointers);
    auto* const ends = reinterpret_cast<int32_t*>(scratch + p.ends);
    auto* const lists = reinterpret_cast<int32_t*>(scratch + p.lists);
    const auto most = static_cast<int32_t>(room());
    const GemmOutliers outliers{lists, lists + most, lists + 2 * most, lists + 3 * most};
    const RowTiles tiles(copy.rows, static_cast<int>(tile_));
    for (int row = 0; row < copy.rows; ++row) pointers[row] = inliers + row * pitch_;
    ends[0] = 0;
    for (int t = 0, rows = 0; t < tiles.number; ++t) {
      copy.rows = tiles.height(t);
      rows += copy.rows;
      ends[t + 1] = kernel.split(copy, {inliers, outliers, ends[t], most});
      if (ends[t + 1] < 0 || ends[t + 1] > most_outliers(rows)) return false;
      copy.x += copy.rows;
      inliers += copy.rows * pitch_;
    }
    result = {nullptr, pointers, outliers, ends};
    return true;
  }

  std::vector<int32_t> runs_;  // empty where no panel reads copies
  bool splits_ = false;
  int32_t base_ = 0;
  int64_t pitch_ = 0, rows_ = 0, tile_ = 1;
};

}  // namespace intact
