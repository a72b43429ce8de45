// How native code refuses what nobody could run safely: Python sees a ValueError.
#pragma once

#include <stdexcept>

namespace intact {

inline void demand(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

}  // namespace intact
