// NumPy's names of types.
#pragma once

#include <optional>
#include <string_view>

#include "base/type.h"

namespace intact {

struct NamedType {
  const char* name;
  Type type;
};
constexpr NamedType kNamedTypes[] = {
    {"uint8", Type::u8},    {"int8", Type::i8},     {"bool", Type::b8},    {"int16", Type::i16},
    {"uint16", Type::u16},  {"float16", Type::f16}, {"int32", Type::i32},  {"uint32", Type::u32},
    {"float32", Type::f32}, {"int64", Type::i64},   {"uint64", Type::u64}, {"float64", Type::f64}};

constexpr const char* name_of(Type type) {
  for (const NamedType& named : kNamedTypes) {
    if (named.type == type) return named.name;
  }
  return "";
}

// Nothing for a name that no type has.
constexpr std::optional<Type> find_type(std::string_view name) {
  for (const NamedType& named : kNamedTypes) {
    if (name == named.name) return named.type;
  }
  return std::nullopt;
}

}  // namespace intact
