// Enumerators by their names in plans.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace intact {

// `names` in the order of the enumerators; nothing for a name that is not among them.
template <class Kind, size_t kCount>
constexpr std::optional<Kind> find_kind(const char* const (&names)[kCount], std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (name == names[i]) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

}  // namespace intact
