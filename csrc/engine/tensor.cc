#include "engine/tensor.h"

#include <utility>

namespace intact::engine {
namespace {

constexpr std::pair<const char*, Type> kTypes[] = {
    {"uint8", Type::u8},    {"int8", Type::i8},     {"bool", Type::b8},    {"int16", Type::i16},
    {"uint16", Type::u16},  {"float16", Type::f16}, {"int32", Type::i32},  {"uint32", Type::u32},
    {"float32", Type::f32}, {"int64", Type::i64},   {"uint64", Type::u64}, {"float64", Type::f64}};

}  // namespace

const char* name_of(Type type) {
  for (const auto& [name, one] : kTypes) {
    if (one == type) return name;
  }
  return "";
}

std::optional<Type> type_named(std::string_view name) {
  for (const auto& [known, type] : kTypes) {
    if (name == known) return type;
  }
  return std::nullopt;
}

}  // namespace intact::engine
