// Grids of 4 and 16 bits, which no tensor of codes has.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>

#include "engine/checker.h"

namespace intact::engine {

struct WideFormat {
  const char* name;
  int64_t low, high;
};
constexpr WideFormat kWideFormats[] = {
    {"int16", -32768, 32767}, {"uint16", 0, 65535}, {"int4", -8, 7}, {"uint4", 0, 15}};

inline const WideFormat& format_named(const std::string& name) {
  const auto* const found = std::find_if(std::begin(kWideFormats), std::end(kWideFormats),
                                         [&](const WideFormat& f) { return name == f.name; });
  if (found == std::end(kWideFormats)) fail_file("a step", name, "a format of integers");
  return *found;
}

// Refuses what is no grid of a format.
inline void check_grid(const Checker& checker, const WideFormat& format, double scale, int64_t zero_point) {
  checker.that(format.low <= zero_point && zero_point <= format.high, "a zero point that is a code");
  checker.that(static_cast<float>(scale) > 0 && static_cast<float>(scale) <= 3.4028234e38f,
               "a positive float32 scale");
}

}  // namespace intact::engine
