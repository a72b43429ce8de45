// The rules by which items of a job go to threads. Workers follows them, and balance.h models them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/tuning.h"

namespace intact {

constexpr int kChunkBits = 12;  // bits of the number of a chunk
constexpr size_t kMostChunks = (size_t{1} << kChunkBits) - 1;

// The number of chunks into which the items of a job are divided, for so many threads.
constexpr size_t chunks_of(size_t items, size_t threads) {
  return std::min({tuning::threads::kChunksPerThread * threads, kMostChunks, items});
}
// The first item of a chunk; for chunk == chunks the number of items.
constexpr size_t first_item(size_t items, size_t chunk, size_t chunks) { return items * chunk / chunks; }
// Returns whether a seat (a thread's number in a job) takes the first chunk that is left, or the last. With
// two threads each then finds in its cache what it wrote in the job before.
constexpr bool takes_first(int seat) { return seat % 2 == 0; }

}  // namespace intact
