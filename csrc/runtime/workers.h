// Persistent threads that share the pieces of one job after another. An idle thread spins for a moment, if
// it may, and then sleeps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace intact {

// The threads, for one caller at a time. A child of fork never destroys them, because they do not exist
// there.
class Workers {
 public:
  explicit Workers(bool spin);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  bool try_take() { return !taken_.exchange(true, std::memory_order_acquire); }
  void leave() { taken_.store(false, std::memory_order_release); }

  // Only the current owner may call the following. Sets the number of threads, the caller included, or as
  // many as the system gives.
  void grow_to(int threads);
  // Calls body(begin, end, seat) on disjoint pieces that cover [0, items), on the caller (seat 0) and the
  // threads here. Returns when all are done. It neither allocates nor throws, and the body must not throw.
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
  Job job_{};  // written while no chunk is claimed, read by threads that have claimed one
  uint64_t number_ = 0;
  // The unclaimed chunks [first, last), and the number of their job. With the number a claim cannot succeed
  // in another job than it was meant for.
  alignas(64) std::atomic<uint64_t> open_{0};
  alignas(64) std::atomic<uint32_t> done_{0};  // chunks of this job that the threads here have finished
  alignas(64) std::atomic<uint32_t> bell_{0};
  std::atomic<bool> asleep_{false};  // a thread may have gone to sleep since the last notification
  std::atomic<bool> stop_{false};
  std::atomic<bool> taken_{false};
};

}  // namespace intact
