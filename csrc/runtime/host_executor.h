// The threads of the program around us, which it lends by a callback.
#pragma once

#include <cstdint>

#include "runtime/executor.h"

namespace intact {

// intact_options::parallel_for, and what it is called with.
struct HostPool {
  void (*parallel_for)(void* pool, void (*piece)(void* job, int32_t index), void* job,
                       int32_t count) = nullptr;
  void* pool = nullptr;
};

// All that a job needs lies on its caller's stack, so that any number of runs may deal at once. A piece
// claims chunks until none is left and waits for no other piece: it does not matter which threads run the
// pieces, in which order, or how many at once.
class HostExecutor : public Executor {
 public:
  HostExecutor(const HostPool& host, int threads) : host_(host), threads_(threads) {}
  void leave() override {}

 private:
  void deal_job(Job job) override;

  const HostPool host_;
  const int threads_;
};

}  // namespace intact
