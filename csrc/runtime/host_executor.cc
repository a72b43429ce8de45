#include "runtime/host_executor.h"

#include <algorithm>

#include "base/fp_env.h"
#include "runtime/dealing.h"

namespace intact {
namespace {

struct Pieces {
  Chunks chunks;
  int32_t count;
};

void run_piece(void* job, int32_t index) {
  auto& pieces = *static_cast<Pieces*>(job);
  if (index < 0 || index >= pieces.count) return;  // it would have no scratch of its own
  const ScopedFpEnv env;
  pieces.chunks.work(index);
}

}  // namespace

void HostExecutor::deal_job(Job job) {
  job.chunks = chunks_of(job.items, static_cast<size_t>(threads_));
  Pieces pieces;
  pieces.count = static_cast<int32_t>(std::min(job.chunks, static_cast<size_t>(threads_)));
  pieces.chunks.open(job);
  host_.parallel_for(host_.pool, &run_piece, &pieces, pieces.count);
  pieces.chunks.work(0);  // what a host leaves that calls fewer pieces than it was asked for
}

}  // namespace intact
