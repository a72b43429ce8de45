// What steps share that write where indices say.
#pragma once

#include <string>

#include "engine/checker.h"

namespace intact::engine {

void check_scattered(const Checker& checker, int x, int index, int updates, int y,
                     const std::string& reduction);

}  // namespace intact::engine
