// Steps that read elements in one order of axes and write them in another: quantize, dequantize and copy.
// Rows that are dense on both sides are processed whole. If x is dense along another axis than y, tiles of
// the two axes are transposed. Otherwise elements are processed one by one. A step with a form for short
// rows gets many at once.
#pragma once

#include "base/tuning.h"
#include "steps/common/walk.h"

namespace intact {

// x[q][p], dense along p, and y[p][q], dense along q. Pitches in bytes.
struct Tile {
  const uint8_t* x;
  ptrdiff_t x_pitch;
  uint8_t* y;
  ptrdiff_t y_pitch;
  size_t p, q;
};

// Row q of a tile of floats. This prefetches the same row of the next tile, which lies right behind it in
// memory. Rows of a tile are a plane apart, too far for the prefetcher of the hardware to follow.
inline const uint8_t* float_row(const Tile& t, size_t q) {
  const uint8_t* const x = t.x + static_cast<ptrdiff_t>(q) * t.x_pitch;
  for (size_t i = 0; i < 4 * t.p; i += 64) __builtin_prefetch(x + 4 * t.p + i);
  return x;
}

// y[p][q] = x[p][q] of few columns q. Strides in bytes.
struct ShortRows {
  const uint8_t* x;
  std::array<int64_t, 2> x_strides;
  uint8_t* y;
  std::array<int64_t, 2> y_strides;
  size_t p, q;
};

// Derived has row(x, n, y), tile(tile, scratch) and element(x, y), const noexcept; or in(memory) returns an
// object that has them. It may have short_rows(rows).
template <class Derived>
class Relayout : public Step {
 public:
  Relayout(const View& x, const View& y) : x_(x), y_(y), walk_({x, y}) {
    reads(x);
    writes(y);
    const int last = walk_.rank - 1;
    if (!walk_.dense(1) || walk_.dense(0)) {
      mode_ = walk_.dense(1) ? Mode::rows : Mode::elements;
      by_rows();
      return;
    }
    int p = 0;
    while (p < last && !walk_.dense(0, p)) ++p;
    mode_ = p < last ? Mode::tiles : Mode::elements;
    if (mode_ == Mode::elements) {
      by_rows();
    } else {
      walk_.bring(p);
      cut();
    }
  }

  size_t items() const override {
    if (mode_ != Mode::tiles) return rows_.items();
    return (walk_.outer(walk_.rank - 2) * across_ * down_ + each_ - 1) / each_;
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const uint8_t* x = x_.at<uint8_t>(memory);
    uint8_t* y = y_.at<uint8_t>(memory);
    const auto& self = static_cast<const Derived&>(*this).in(memory);
    if (mode_ == Mode::tiles) return tiles(self, x, y, begin, end, scratch);
    if constexpr (kTakesShortRows) {
      if (mode_ == Mode::short_rows) return short_rows(self, x, y, begin, end);
    }
    const auto step = walk_.strides[walk_.rank - 1];
    visit_rows(walk_, walk_.rank - 1, rows_, begin, end, [&](const auto& at, size_t n) {
      const uint8_t* const source = x + at[0];
      uint8_t* const target = y + at[1];
      if (mode_ == Mode::rows) return self.row(source, n, target);
      if constexpr (kTakesShortRows) {
        self.short_rows({source, {step[0], 0}, target, {step[1], 0}, n, 1});
      } else {
        for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) {
          self.element(source + i * step[0], target + i * step[1]);
        }
      }
    });
  }

 protected:
  // The object that processes rows, tiles and elements of one run.
  const Derived& in([[maybe_unused]] const Memory& memory) const {
    return static_cast<const Derived&>(*this);
  }
  bool tiled() const { return mode_ == Mode::tiles; }
  size_t tile_elements() const { return p_ * q_; }

 private:
  enum class Mode { rows, tiles, elements, short_rows };
  static constexpr size_t kTile = tuning::moves::kTile, kShortRow = tuning::moves::kShortRow,
                          kFewRows = tuning::moves::kFewRows;
  static constexpr bool kTakesShortRows = requires(const Derived& d, const ShortRows& r) { d.short_rows(r); };

  void by_rows() {
    const int last = walk_.rank - 1;
    const bool is_short = last > 0 && walk_.size(last) <= kShortRow && walk_.size(last - 1) >= kFewRows;
    if (kTakesShortRows && is_short) {
      mode_ = Mode::short_rows;
      rows_ = Rows(walk_.outer(last - 1), walk_.size(last - 1), kTile / walk_.size(last));
    } else {
      rows_ = Rows(walk_.outer(last), walk_.size(last), kTile);
    }
  }

  template <class Self>
  void short_rows(const Self& self, const uint8_t* x, uint8_t* y, size_t begin, size_t end) const {
    const auto &outer = walk_.strides[walk_.rank - 2], &inner = walk_.strides[walk_.rank - 1];
    const size_t columns = walk_.size(walk_.rank - 1);
    visit_rows(walk_, walk_.rank - 2, rows_, begin, end, [&](const auto& at, size_t n) {
      self.short_rows({x + at[0], {outer[0], inner[0]}, y + at[1], {outer[1], inner[1]}, n, columns});
    });
  }

  // Sets the size of tiles, at most kTile elements, and how many tiles a piece of work has.
  void cut() {
    const size_t rows = walk_.size(walk_.rank - 2), columns = walk_.size(walk_.rank - 1);
    q_ = std::min<size_t>(columns, 128);
    p_ = std::min(rows, kTile / q_);
    down_ = (rows + p_ - 1) / p_;
    across_ = (columns + q_ - 1) / q_;
    each_ = std::max<size_t>(1, kTile / (p_ * q_));
  }

  template <class Self>
  void tiles(const Self& self, const uint8_t* x, uint8_t* y, size_t begin, size_t end,
             uint8_t* scratch) const {
    const int p = walk_.rank - 2, q = walk_.rank - 1;
    const size_t plane = across_ * down_, last = std::min(end * each_, walk_.outer(p) * plane);
    Cursor<2> cursor(walk_, p, begin * each_ / plane);
    for (size_t i = begin * each_; i < last; ++i) {
      const size_t from_p = i % plane / across_ * p_, from_q = i % across_ * q_;
      if (i != begin * each_ && i % plane == 0) cursor.next();
      const auto ip = static_cast<int64_t>(from_p), iq = static_cast<int64_t>(from_q);
      Tile t;
      t.x = x + cursor.offset(0) + ip * walk_.strides[p][0] + iq * walk_.strides[q][0];
      t.y = y + cursor.offset(1) + ip * walk_.strides[p][1] + iq * walk_.strides[q][1];
      t.x_pitch = static_cast<ptrdiff_t>(walk_.strides[q][0]);
      t.y_pitch = static_cast<ptrdiff_t>(walk_.strides[p][1]);
      t.p = std::min(p_, walk_.size(p) - from_p);
      t.q = std::min(q_, walk_.size(q) - from_q);
      self.tile(t, scratch);
    }
  }

  View x_, y_;
  Walk<2> walk_;
  Mode mode_ = Mode::rows;
  Rows rows_;
  size_t p_ = 1, q_ = 1;  // of a tile
  size_t down_ = 1, across_ = 1;  // tiles of a plane
  size_t each_ = 1;  // tiles of a piece
};

}  // namespace intact
