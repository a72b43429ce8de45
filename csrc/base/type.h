// The element type of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace intact {

// Codes are u8. Elements of any type are moved; which are computed with, each step says.
enum class Type : uint8_t { u8, i8, b8, i16, u16, f16, i32, u32, f32, i64, u64, f64 };
constexpr size_t bytes_of(Type t) { return t < Type::i16 ? 1 : t < Type::i32 ? 2 : t < Type::i64 ? 4 : 8; }

}  // namespace intact
