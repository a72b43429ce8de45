// The writes of scatter steps: updates, or their reduction with the elements of y.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

#include "steps/common/lines.h"

namespace intact {

enum class Reduction : uint8_t { none, add, mul, max, min };

// "none" or the name of a reduction; throws std::invalid_argument for others.
inline Reduction reduction_of(const std::string& name) {
  constexpr const char* kNames[] = {"none", "add", "mul", "max", "min"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<Reduction>(i);
  }
  refuse("there is no such reduction");
}

// Writes n updates, `by` bytes apart, to elements of y, `step` bytes apart.
using Combine = void (*)(uint8_t* y, int64_t step, const uint8_t* update, int64_t by, int64_t n);

// Maximum and minimum are those of numerics: b where it is beyond a, or a NaN.
template <Reduction kKind, class T>
T reduce_pair(T a, T b) {
  if constexpr (kKind == Reduction::add) return sum(a, b);
  if constexpr (kKind == Reduction::mul) return product(a, b);
  if constexpr (kKind == Reduction::max) return a < b || b != b ? b : a;
  if constexpr (kKind == Reduction::min) return a > b || b != b ? b : a;
  return b;
}

template <class T, Reduction kKind>
void combine_updates(uint8_t* y, int64_t step, const uint8_t* update, int64_t by, int64_t n) {
  constexpr auto kUnit = static_cast<int64_t>(sizeof(T));
  if (step == kUnit && by == kUnit) {
    for (int64_t i = 0; i < n; ++i) {
      uint8_t* const to = y + i * kUnit;
      store(to, reduce_pair<kKind>(load<T>(to), load<T>(update + i * kUnit)));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i, y += step, update += by) {
    store(y, reduce_pair<kKind>(load<T>(y), load<T>(update)));
  }
}

template <class T>
void copy_updates(uint8_t* y, int64_t step, const uint8_t* update, int64_t by, int64_t n) {
  constexpr auto kUnit = static_cast<int64_t>(sizeof(T));
  if (step == kUnit && by == kUnit) {
    std::memcpy(y, update, static_cast<size_t>(n * kUnit));
    return;
  }
  for (int64_t i = 0; i < n; ++i, y += step, update += by) store(y, load<T>(update));
}

template <class T>
Combine combine_by(Reduction kind) {
  switch (kind) {
    case Reduction::add: return combine_updates<T, Reduction::add>;
    case Reduction::mul: return combine_updates<T, Reduction::mul>;
    case Reduction::max: return combine_updates<T, Reduction::max>;
    default: return combine_updates<T, Reduction::min>;
  }
}

inline Combine combine_of(Type type, Reduction kind) {
  if (kind == Reduction::none) {
    switch (bytes_of(type)) {
      case 1: return copy_updates<uint8_t>;
      case 2: return copy_updates<uint16_t>;
      case 4: return copy_updates<uint32_t>;
      default: return copy_updates<uint64_t>;
    }
  }
  switch (type) {
    case Type::f32: return combine_by<float>(kind);
    case Type::i32: return combine_by<int32_t>(kind);
    case Type::i64: return combine_by<int64_t>(kind);
    default: refuse("reductions are of float32, int32 or int64");
  }
}

}  // namespace intact
