// Cuts a range of elements into runs that a kernel can take at once: rows that share their parameters, or
// stretches with one parameter per element.
#pragma once

#include <cstddef>

#include "base/grid.h"

namespace intact {

constexpr size_t kLongRow = 16;     // from here on a row is worth a call of its own
constexpr size_t kTile = 1024;      // parameters spread out at once
constexpr size_t kLongPeriod = 64;  // from here on stored parameters are used where they lie

inline Grid shifted(const Grid& g, size_t by) {
  if (g.shared) return g;
  return {g.scale ? g.scale + by : nullptr, g.low ? g.low + by : nullptr,
          g.high ? g.high + by : nullptr, false};
}

inline Grid granule(const Grid& all, size_t p) {
  return {all.scale ? all.scale + p : nullptr, all.low ? all.low + p : nullptr,
          all.high ? all.high + p : nullptr, true};
}

// Parameters of granules spread over elements: for short rows, and for few channels on the last axis.
class SpreadGrid {
 public:
  Grid fill(const Layout& l, const Grid& all, size_t first, size_t n) {
    size_t row = first / l.inner, left = l.inner - first % l.inner;
    for (size_t i = 0; i < n; ++row, left = l.inner) {
      const size_t p = l.granule_of_row(row), end = i + left < n ? i + left : n;
      for (; i < end; ++i) {
        if (all.scale) scale_[i] = all.scale[p];
        if (all.low) low_[i] = all.low[p];
        if (all.high) high_[i] = all.high[p];
      }
    }
    return {all.scale ? scale_ : nullptr, all.low ? low_ : nullptr, all.high ? high_ : nullptr, false};
  }

 private:
  float scale_[kTile], low_[kTile], high_[kTile];
};

template <class Emit>
void walk_rows(const Layout& l, const Grid& all, size_t begin, size_t end, Emit emit) {
  for (size_t i = begin; i < end;) {
    const size_t left = l.inner - i % l.inner, n = left < end - i ? left : end - i;
    emit(i, n, granule(all, l.granule_of_row(i / l.inner)));
    i += n;
  }
}

template <class Emit>
void walk_channels(const Layout& l, const Grid& all, size_t begin, size_t end, Emit emit) {
  for (size_t i = begin; i < end;) {
    const size_t left = l.channels - i % l.channels, n = left < end - i ? left : end - i;
    emit(i, n, shifted(all, l.granule_of_row(i)));
    i += n;
  }
}

// A tile starts at a multiple of the period where whole periods fit, and is then used again.
template <class Emit>
void walk_tiles(const Layout& l, const Grid& all, size_t begin, size_t end, Emit emit) {
  SpreadGrid tile;
  const size_t group = l.outer * l.period(), whole = kTile / l.period() * l.period();
  Grid kept = {nullptr, nullptr, nullptr, false};
  size_t kept_group = static_cast<size_t>(-1);
  for (size_t i = begin; i < end;) {
    const size_t g = i / group, phase = whole ? i % group % l.period() : 0;
    const size_t room = (whole ? whole : kTile) - phase, left = (g + 1) * group - i;
    const size_t fits = room < left ? room : left, n = fits < end - i ? fits : end - i;
    if (!whole) {
      kept = tile.fill(l, all, i, n);
    } else if (g != kept_group) {
      // Beyond the last element of a short last group the tile is not read; fill stays inside.
      kept = tile.fill(l, all, g * group, whole < group ? whole : group);
      kept_group = g;
    }
    emit(i, n, shifted(kept, phase));
    i += n;
  }
}

// Calls emit(first, n, grid) on runs that cover [begin, end) in order. `all` holds one entry per granule.
template <class Emit>
void walk_grid(const Layout& l, const Grid& all, size_t begin, size_t end, Emit emit) {
  if (l.granules() == 1) {
    if (begin < end) emit(begin, end - begin, granule(all, 0));
  } else if (l.inner >= kLongRow) {
    walk_rows(l, all, begin, end, emit);
  } else if (l.inner == 1 && l.channels >= kLongPeriod) {
    walk_channels(l, all, begin, end, emit);
  } else {
    walk_tiles(l, all, begin, end, emit);
  }
}

}  // namespace intact
