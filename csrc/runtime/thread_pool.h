// The thread pool of an engine, and parallel_for.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>

#include "runtime/workers.h"

namespace intact {

// The pool of an engine. Its workers are made on first use, and again in a child of fork.
class ThreadPool {
 public:
  // `threads` includes the caller; `spin`: there are as many cores, so that idle threads may spin.
  ThreadPool(int threads, bool spin) : threads_(threads < 1 ? 1 : threads), spin_(spin) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // The workers, exclusively until the caller leaves; nullptr if another run has them, or there are no
  // threads.
  Workers* try_take() { return try_take(threads_); }
  // The same, for so many threads.
  Workers* try_take(int threads);

 private:
  const int threads_;
  const bool spin_;
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
  Workers* const workers = parts < 2 ? nullptr : shared_pool().try_take(static_cast<int>(parts));
  if (workers == nullptr) {
    work(0, parts, 0);
  } else {
    workers->deal(parts, work);
    workers->leave();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace intact
