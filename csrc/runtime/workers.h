// Persistent threads that share the pieces of one job after another. An idle thread spins for a moment, if
// it may, and then sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/executor.h"

namespace intact {

// The threads, for one caller at a time. A child of fork never destroys them, because they do not exist
// there.
class Workers : public Executor {
 public:
  explicit Workers(bool spin);
  ~Workers() override;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  bool try_take() { return !taken_.exchange(true, std::memory_order_acquire); }
  void leave() override { taken_.store(false, std::memory_order_release); }

  // Sets the number of threads, the caller included, or as many as the system gives. Only the current owner
  // may call it, and deal.
  void grow_to(int threads);

  const long owner;  // process id

 private:
  void deal_job(Job job) override;
  void serve(int seat);
  bool wait_for_work();
  void wait_for_done(uint32_t count);
  void ring();

  const bool spin_;
  int wanted_ = 1;
  std::vector<std::thread> threads_;
  Chunks chunks_;
  alignas(64) std::atomic<uint32_t> done_{0};  // chunks of this job that the threads here have finished
  alignas(64) std::atomic<uint32_t> bell_{0};
  std::atomic<bool> asleep_{false};  // a thread may have gone to sleep since the last notification
  std::atomic<bool> stop_{false};
  std::atomic<bool> taken_{false};
};

}  // namespace intact
