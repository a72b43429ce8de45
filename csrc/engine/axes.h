// Sizes, or strides, one for each axis of a tensor.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "runtime/view.h"

namespace intact::engine {

// More axes than native steps walk (kMaxRank): parts of a plan that its host runs have as many as NumPy has.
constexpr int kMostAxes = 64;

// A plan has hundreds of these for each set of sizes: few axes lie in place, so that they take no fresh
// pages.
class Axes {
 public:
  int rank = 0;  // may be lowered; `resize` raises it

  Axes() {}
  Axes(const Axes& other) { *this = other; }
  Axes& operator=(const Axes& other) {
    resize(other.rank);
    std::copy_n(other.begin(), rank, data());
    return *this;
  }
  Axes(std::initializer_list<int64_t> values) {
    for (const int64_t v : values) push(v);
  }
  // Sets the number of axes; those that are added hold anything.
  void resize(int count) {
    if (count > kMaxRank && many_ == nullptr) {
      many_ = std::make_unique<int64_t[]>(kMostAxes);
      std::copy_n(few_.begin(), few_.size(), many_.get());
    }
    rank = count;
  }
  void push(int64_t value) {
    resize(rank + 1);
    data()[rank - 1] = value;
  }
  int64_t& operator[](int i) { return data()[i]; }
  int64_t operator[](int i) const { return begin()[i]; }
  const int64_t* begin() const { return many_ == nullptr ? few_.data() : many_.get(); }
  const int64_t* end() const { return begin() + rank; }
  int64_t last() const { return end()[-1]; }
  bool has(int64_t value) const { return std::find(begin(), end(), value) != end(); }
  bool operator==(const Axes& other) const {
    return rank == other.rank && std::equal(begin(), end(), other.begin());
  }

 private:
  int64_t* data() { return many_ == nullptr ? few_.data() : many_.get(); }

  std::array<int64_t, kMaxRank> few_;
  std::unique_ptr<int64_t[]> many_;  // kMostAxes of them; nullptr: few_ has all
};

using Shape = Axes;

constexpr int64_t kMostSize = int64_t{1} << 62;  // stands for all that is more

// The product of sizes of 0 or more.
inline int64_t product(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kMostSize / b ? kMostSize : a * b;
}
inline int64_t product(std::span<const int64_t> sizes) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  int64_t total = 1;
  for (const int64_t n : sizes) total = product(total, n);
  return total;
}
// The first axes of a view, of which there are at most kMaxRank.
inline std::array<int64_t, kMaxRank> view_axes(const Axes& axes) {
  if (axes.rank > kMaxRank) throw std::invalid_argument("a view has more axes than steps walk");
  std::array<int64_t, kMaxRank> first{};
  std::copy_n(axes.begin(), axes.rank, first.begin());
  return first;
}
inline Axes axes_of(const std::array<int64_t, kMaxRank>& axes, int rank) {
  Axes found;
  for (int i = 0; i < rank; ++i) found.push(axes[static_cast<size_t>(i)]);
  return found;
}
inline int64_t elements(const Shape& shape) { return product({shape.begin(), shape.end()}); }

// Strides of row-major memory without gaps.
inline Axes dense_strides(const Shape& shape, int64_t itemsize) {
  Axes found = shape;
  for (int i = shape.rank; i-- > 0;) {
    found[i] = itemsize;
    itemsize = product(itemsize, std::max<int64_t>(shape[i], 1));
  }
  return found;
}

// (n, c, h, w) as (n, h, w, c).
inline Axes channels_last(const Axes& a) { return {a[0], a[2], a[3], a[1]}; }

inline std::string text_of(const Axes& axes) {
  std::string found = "(";
  for (const int64_t n : axes) found += (found.size() > 1 ? ", " : "") + std::to_string(n);
  return found + ")";
}

}  // namespace intact::engine
