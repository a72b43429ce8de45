// Splits a range over the caller's number of threads.
#pragma once

#include <cstddef>
#include <functional>

namespace intact {

// Calls body(begin, end, part) on disjoint pieces that cover [0, n), part < parts_of(n, ...), and
// returns when all are done. Threads persist between calls. The caller's thread works too; it does
// everything itself when another call has the pool. Safe in the child of a fork.
void parallel_for(size_t n, size_t grain, int threads,
                  const std::function<void(size_t begin, size_t end, int part)>& body);

// Number of pieces: at most `threads`, and none smaller than `grain` (but at least one).
int parts_of(size_t n, size_t grain, int threads);

}  // namespace intact
