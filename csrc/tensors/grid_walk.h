// Cuts a range of elements into runs that a kernel can take at once: rows that share their parameters, or
// stretches with one parameter per element.
#pragma once

#include <cstddef>
#include <vector>

#include "base/grid.h"
#include "base/tuning.h"

namespace intact {

inline Grid shifted(const Grid& g, size_t by) {
  if (g.shared) return g;
  return {g.scale ? g.scale + by : nullptr, g.low ? g.low + by : nullptr, g.high ? g.high + by : nullptr,
          false};
}

inline Grid granule(const Grid& all, size_t p) {
  return {all.scale ? all.scale + p : nullptr, all.low ? all.low + p : nullptr,
          all.high ? all.high + p : nullptr, true};
}

// Parameters of granules spread over elements: for short rows, and for few channels on the last axis.
class SpreadGrid {
 public:
  explicit SpreadGrid(size_t most) : scale_(most), low_(most), high_(most) {}

  Grid fill(const Layout& l, const Grid& all, size_t first, size_t n) {
    if (all.scale) spread(l, all.scale, first, n, scale_.data());
    if (all.low) spread(l, all.low, first, n, low_.data());
    if (all.high) spread(l, all.high, first, n, high_.data());
    return {all.scale ? scale_.data() : nullptr, all.low ? low_.data() : nullptr,
            all.high ? high_.data() : nullptr, false};
  }

 private:
  static void spread(const Layout& l, const float* from, size_t first, size_t n, float* to) {
    size_t row = first / l.inner, left = l.inner - first % l.inner;
    size_t channel = row % l.channels, p = l.granule_of_row(row);
    for (size_t i = 0; i < n; left = l.inner) {
      const size_t end = i + left < n ? i + left : n;
      for (const float value = from[p]; i < end; ++i) to[i] = value;
      ++row;  // divisions only where a period ends: rows here are a few elements long
      if (++channel == l.channels) {
        channel = 0;
        p = i < n ? l.granule_of_row(row) : p;
      } else {
        ++p;
      }
    }
  }

  std::vector<float> scale_, low_, high_;
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

// Repeating parameters: spread once per group over whole periods, and used again.
template <class Emit>
void walk_repeated(const Layout& l, const Grid& all, size_t begin, size_t end, Emit emit) {
  const size_t period = l.period(), group = l.outer * period;
  const size_t periods = period < tuning::tensors::kTile ? tuning::tensors::kTile / period : 1;
  const size_t whole = periods < l.outer ? periods * period : group;
  SpreadGrid tile(whole);
  for (size_t i = begin; i < end;) {
    const size_t g = i / group, stop = (g + 1) * group < end ? (g + 1) * group : end;
    const Grid kept = tile.fill(l, all, g * group, whole);
    while (i < stop) {
      const size_t phase = i % group % period, room = whole - phase;
      const size_t n = room < stop - i ? room : stop - i;
      emit(i, n, shifted(kept, phase));
      i += n;
    }
  }
}

template <class Emit>
void walk_tiles(const Layout& l, const Grid& all, size_t begin, size_t end, Emit emit) {
  SpreadGrid tile(tuning::tensors::kTile);
  for (size_t i = begin; i < end; i += tuning::tensors::kTile) {
    const size_t n = tuning::tensors::kTile < end - i ? tuning::tensors::kTile : end - i;
    emit(i, n, tile.fill(l, all, i, n));
  }
}

// Calls emit(first, n, grid) on runs that cover [begin, end) in order. `all` holds one entry per granule.
template <class Emit>
void walk_grid(const Layout& l, const Grid& all, size_t begin, size_t end, Emit emit) {
  if (l.granules() == 1) {
    if (begin < end) emit(begin, end - begin, granule(all, 0));
  } else if (l.inner >= tuning::tensors::kLongRow) {
    walk_rows(l, all, begin, end, emit);
  } else if (l.inner == 1 && l.channels >= tuning::tensors::kLongPeriod) {
    walk_channels(l, all, begin, end, emit);
  } else if (l.outer > 1 && l.period() <= tuning::tensors::kRepeated) {
    walk_repeated(l, all, begin, end, emit);
  } else {
    walk_tiles(l, all, begin, end, emit);
  }
}

}  // namespace intact
