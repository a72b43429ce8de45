// Threads that persist and share out the pieces of one job after another: the steps of an engine's run, or
// the parts of a range (parallel_for). Who has nothing to do looks around for a moment, if it may, and
// sleeps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace intact {

// The threads themselves, for one caller at a time. Never destroyed in a child of fork, where they do not
// exist.
class Workers {
 public:
  explicit Workers(bool spin);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  bool try_take() { return !taken_.exchange(true, std::memory_order_acquire); }
  void leave() { taken_.store(false, std::memory_order_release); }

  // The rest is for who took them. There are `threads` from now on, the caller's counted, or as many as the
  // system gives.
  void grow_to(int threads);
  // body(begin, end, seat) on disjoint pieces that cover [0, items): on the caller's thread, whose seat is 0,
  // and on those here. Returns when all are done. Neither allocates nor throws; nor may the body throw.
  template <class Body>
  void deal(size_t items, const Body& body) {
    deal({[](const void* b, size_t begin, size_t end, int seat) {
            (*static_cast<const Body*>(b))(begin, end, seat);
          },
          &body, items, 0});
  }

  const long owner;  // process id

 private:
  struct Job {
    void (*run)(const void* body, size_t begin, size_t end, int seat);
    const void* body;
    size_t items, chunks;
  };

  void deal(const Job& job);
  void serve(int seat);
  bool wait_for_work();
  void wait_for_done(uint32_t count);
  uint32_t work(int seat);
  void ring();

  const bool spin_;
  int wanted_ = 1;
  std::vector<std::thread> threads_;
  Job job_{};  // written while no chunk is out, read by who has claimed one
  uint64_t number_ = 0;
  // The chunks that nobody has claimed yet, [first, last), and the number of the job they belong to, so that
  // a claim never lands in another job than it was meant for.
  alignas(64) std::atomic<uint64_t> open_{0};
  alignas(64) std::atomic<uint32_t> done_{0};  // chunks of this job that the threads here have finished
  alignas(64) std::atomic<uint32_t> bell_{0};
  std::atomic<bool> asleep_{false};  // somebody may have gone to sleep since the bell rang last
  std::atomic<bool> stop_{false};
  std::atomic<bool> taken_{false};
};

// What an engine has: workers, made when they are first needed, and again in a child of fork.
class ThreadPool {
 public:
  // `threads` count the caller's; `spin`: there are as many cores for them.
  ThreadPool(int threads, bool spin) : threads_(threads < 1 ? 1 : threads), spin_(spin) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // The workers, for the caller alone until it leaves; nullptr: another run has them, or there are no
  // threads.
  Workers* try_take() { return try_take(threads_); }
  // The same, where so many threads are wanted.
  Workers* try_take(int threads);

 private:
  const int threads_;
  const bool spin_;
  std::atomic<Workers*> workers_{nullptr};
};

// Number of parts of [0, n): at most `threads`, and none smaller than `grain` (but at least one).
int parts_of(size_t n, size_t grain, int threads);

// The threads of every parallel_for of this process: as many as were ever wanted at once.
ThreadPool& shared_pool();

// Calls body(begin, end, part) on disjoint pieces that cover [0, n), part < parts_of(n, ...), and returns
// when all are done. The caller's thread works too; it does everything itself when another call has the
// threads. What a part throws is thrown here, once all are done. Safe in the child of a fork.
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
      } catch (...) {  // only memory can run out here
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
