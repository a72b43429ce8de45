// The thread pool of an engine, and parallel_for.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>

#include "runtime/host_executor.h"
#include "runtime/workers.h"

namespace intact {

// The pool of an engine: threads of its own, made on first use and again in a child of fork, or those of a
// host.
class ThreadPool {
 public:
  // `threads` includes the caller; `spin`: there are as many cores, so that idle threads may spin.
  ThreadPool(int threads, bool spin, const HostPool& host = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // The threads, until the caller leaves; nullptr if another run has them, or there are none. A host's are
  // never taken: it may have as many jobs at once as there are runs.
  Executor* try_take() { return try_take(threads_); }
  // The same, for so many threads.
  Executor* try_take(int threads);

 private:
  const int threads_;
  const bool spin_;
  std::optional<HostExecutor> host_executor_;
  std::atomic<Workers*> workers_{nullptr};
};

// Number of parts of [0, n): at most `threads`, and none smaller than `grain` (but at least one).
int parts_of(size_t n, size_t grain, int threads);

// The threads of all parallel_for calls of this process: as many as were ever used at once.
ThreadPool& shared_pool();

// Calls body(begin, end, part) on disjoint pieces that cover [0, n), with part < parts_of(n, ...), and
// returns when all are done. The calling thread works too, and works alone while another call has the
// threads. An exception of a part is rethrown once all are done. Safe in the child of a fork.
template <class Body>
void parallel_for(size_t n, size_t grain, int threads, const Body& body) {
  const auto parts = static_cast<size_t>(parts_of(n, grain, threads));
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  const auto work = [&](size_t first, size_t last, int) {
    const size_t whole = n / parts, rest = n % parts;
    for (size_t part = first; part < last; ++part) {
      const size_t begin = part * whole + (part < rest ? part : rest);
      try {
        body(begin, begin + whole + (part < rest), static_cast<int>(part));
      } catch (...) {  // the only exception here is bad_alloc
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
  };
  Executor* const executor = parts < 2 ? nullptr : shared_pool().try_take(static_cast<int>(parts));
  if (executor == nullptr) {
    work(0, parts, 0);
  } else {
    executor->deal(parts, work);
    executor->leave();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace intact
