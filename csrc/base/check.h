// How native code refuses what nobody could run safely: Python sees a ValueError.
#pragma once

#include <stdexcept>

namespace intact {

[[noreturn]] inline void refuse(const char* what) { throw std::invalid_argument(what); }

inline void demand(bool holds, const char* what) {
  if (!holds) refuse(what);
}

}  // namespace intact
