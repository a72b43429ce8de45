#include "runtime/executor.h"

#include "runtime/dealing.h"

namespace intact {
namespace {

constexpr int kEndBits = kChunkBits;
constexpr uint64_t kEndMask = kMostChunks;

uint64_t pack(uint64_t number, uint64_t first, uint64_t last) {
  return number << (2 * kEndBits) | first << kEndBits | last;
}
uint64_t first_of(uint64_t open) { return open >> kEndBits & kEndMask; }
uint64_t last_of(uint64_t open) { return open & kEndMask; }
bool has_work(uint64_t open) { return first_of(open) < last_of(open); }

}  // namespace

void Chunks::open(const Job& job) {
  job_ = job;
  open_.store(pack(++number_, 0, job.chunks));
}

bool Chunks::are_left() const { return has_work(open_.load()); }

uint32_t Chunks::work(int seat) {
  uint32_t mine = 0;
  for (uint64_t open = open_.load(std::memory_order_relaxed); has_work(open);) {
    const bool front = takes_first(seat);
    const uint64_t chunk = front ? first_of(open) : last_of(open) - 1;
    const uint64_t rest = front ? open + (uint64_t{1} << kEndBits) : open - 1;
    if (!open_.compare_exchange_weak(open, rest, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      continue;
    }
    const Job& j = job_;
    j.run(j.body, first_item(j.items, chunk, j.chunks), first_item(j.items, chunk + 1, j.chunks), seat);
    ++mine;
    open = open_.load(std::memory_order_relaxed);
  }
  return mine;
}

}  // namespace intact
