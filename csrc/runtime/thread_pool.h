// Threads that persist between runs and share out the items of one step after another. A step that one
// thread can do alone wakes nobody; between steps a thread looks around for a moment before it sleeps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/step.h"

namespace intact {

// Scratch of all threads of a run: `each` bytes for every one.
struct Scratch {
  uint8_t* data;
  size_t each;
  uint8_t* of(int thread) const { return data + each * static_cast<size_t>(thread); }
};

// The threads themselves, for one run at a time. Never destroyed in a child of fork, where they do not exist.
class Workers {
 public:
  Workers(int threads, bool spin);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  bool try_take() { return !taken_.exchange(true, std::memory_order_acquire); }
  void leave() { taken_.store(false, std::memory_order_release); }

  // Runs all items of a step on the caller's thread and those of the workers. Only for who took it.
  void deal(const Step& step, const Memory& memory, size_t items, const Scratch& scratch);

  const long owner;  // process id

 private:
  struct Task {
    const Step* step = nullptr;
    const Memory* memory = nullptr;
    size_t items = 0, chunks = 0;
    Scratch scratch{};
  };

  void serve(int seat);
  bool wait_for_work();
  void wait_for_done(uint32_t count);
  uint32_t work(int seat);
  void ring();

  const bool spin_;
  std::vector<std::thread> threads_;
  Task task_;  // written while no chunk is out, read by who has claimed one
  uint64_t stage_ = 0;
  // The chunks that nobody has claimed yet, [first, last), and the number of the step they belong to, so
  // that a claim never lands in another step than it was meant for.
  alignas(64) std::atomic<uint64_t> open_{0};
  alignas(64) std::atomic<uint32_t> done_{0};  // chunks of this step that the workers has finished
  alignas(64) std::atomic<uint32_t> bell_{0};
  std::atomic<bool> asleep_{false};  // somebody may have gone to sleep since the bell rang last
  std::atomic<bool> stop_{false};
  std::atomic<bool> taken_{false};
};

// What an engine has: a workers, made when it is first needed, and again in a child of fork.
class ThreadPool {
 public:
  // `threads` count the caller's; `spin`: there are as many cores for them.
  ThreadPool(int threads, bool spin) : threads_(threads < 1 ? 1 : threads), spin_(spin) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // The workers, for the caller alone until it leaves; nullptr: another run has it, or there are no threads.
  Workers* try_take();

 private:
  const int threads_;
  const bool spin_;
  std::atomic<Workers*> workers_{nullptr};
};

}  // namespace intact
