// How the items of a job are dealt out to threads: the rules that Workers follows, and balance.h foresees.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/tuning.h"

namespace intact {

constexpr int kChunkBits = 12;  // of a chunk's number
constexpr size_t kMostChunks = (size_t{1} << kChunkBits) - 1;

// How many chunks the items of a job are dealt out in, among so many threads.
constexpr size_t chunks_of(size_t items, size_t threads) {
  return std::min({tuning::threads::kChunksPerThread * threads, kMostChunks, items});
}
// The first item of a chunk, and of `chunks` the end.
constexpr size_t first_item(size_t items, size_t chunk, size_t chunks) { return items * chunk / chunks; }
// Whether a seat takes the first chunk that is left, or the last: with two threads each finds in its cache
// what it has written in the job before.
constexpr bool takes_first(int seat) { return seat % 2 == 0; }

}  // namespace intact
