// What shares the pieces of one job after another: the threads of a pool of our own (workers.h), or those of
// the program around us (host_executor.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace intact {

struct Job {
  void (*run)(const void* body, size_t begin, size_t end, int seat);
  const void* body;
  size_t items, chunks;
};

// The chunks of a job. Threads claim them one by one, and none waits for another.
class Chunks {
 public:
  // Puts a job up. No chunk of the one before may be left.
  void open(const Job& job);
  // Sequentially consistent, because Workers::ring relies on it.
  bool are_left() const;
  // Runs chunks until none is left, and returns their number.
  uint32_t work(int seat);

 private:
  Job job_{};  // written while no chunk is claimed, read by threads that have claimed one
  uint64_t number_ = 0;
  // The unclaimed chunks [first, last), and the number of their job. With the number a claim cannot succeed
  // in another job than it was meant for.
  alignas(64) std::atomic<uint64_t> open_{0};
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Calls body(begin, end, seat) on disjoint pieces that cover [0, items), on the caller and other threads.
  // Pieces that run at once have different seats, which are less than the number of threads. Returns when all
  // are done. It neither allocates nor throws, and the body must not throw.
  template <class Body>
  void deal(size_t items, const Body& body) {
    deal_job({[](const void* b, size_t begin, size_t end, int seat) {
                (*static_cast<const Body*>(b))(begin, end, seat);
              },
              &body, items, 0});
  }
  // Lets other runs have the threads.
  virtual void leave() = 0;

 protected:
  virtual void deal_job(Job job) = 0;
};

}  // namespace intact
