// Lines along one axis of a view, and unaligned access to elements.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "steps/common/views.h"

namespace intact {

// A view without one axis: the first element of each line along it.
inline View beginnings(View v, int axis) {
  demand(0 <= axis && axis < v.rank, "there is no such axis");
  for (int i = axis; i + 1 < v.rank; ++i) {
    v.sizes[static_cast<size_t>(i)] = v.sizes[static_cast<size_t>(i + 1)];
    v.strides[static_cast<size_t>(i)] = v.strides[static_cast<size_t>(i + 1)];
  }
  --v.rank;
  return v;
}

struct Line {
  int64_t size, stride;
};

inline Line line_of(const View& v, int axis) {
  demand(0 <= axis && axis < v.rank, "there is no such axis");
  return {v.sizes[static_cast<size_t>(axis)], v.strides[static_cast<size_t>(axis)]};
}

template <class T>
T load(const uint8_t* x) {
  T value;
  std::memcpy(&value, x, sizeof value);
  return value;
}
template <class T>
void store(uint8_t* y, T value) {
  std::memcpy(y, &value, sizeof value);
}

// Integers wrap around.
template <class T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <class T>
T product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

inline bool is_index(const View& v) { return v.type == Type::i32 || v.type == Type::i64; }

// Reads an index of the type of that view.
inline int64_t index_at(const View& v, const uint8_t* at) {
  return v.type == Type::i64 ? load<int64_t>(at) : load<int32_t>(at);
}

}  // namespace intact
