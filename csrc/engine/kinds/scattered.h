// What steps share that write where indices say.
#pragma once

#include <string>
#include <vector>

#include "engine/checker.h"
#include "engine/sizes.h"

namespace intact::engine {

void check_scattered(const Checker& checker, int x, int index, int updates, int y,
                     const std::string& reduction);
// Refuses tuples of indices, in a constant, that an array of these sizes does not have.
class Binding;
void check_tuples(Binding& binding, int index, const std::vector<int64_t>& sizes);
// The product of sizes of 0 or more.
int64_t count_of(const std::vector<int64_t>& sizes);

}  // namespace intact::engine
