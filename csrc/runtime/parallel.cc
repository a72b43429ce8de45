#include "runtime/parallel.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#if !defined(_WIN32)
#include <unistd.h>
#endif

namespace intact {
namespace {

using Body = std::function<void(size_t, size_t, int)>;

long process_id() {
#if defined(_WIN32)
  return 0;  // no fork there
#else
  return static_cast<long>(getpid());
#endif
}

struct Job {
  const Body* body;
  size_t n;
  int parts;
  std::atomic<int> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;

  void work() {
    for (int part; (part = next.fetch_add(1)) < parts;) run(part);
  }

  void run(int part) {
    const size_t p = static_cast<size_t>(part), all = static_cast<size_t>(parts);
    const size_t whole = n / all, rest = n % all;
    const size_t begin = p * whole + (p < rest ? p : rest);
    try {
      (*body)(begin, begin + whole + (p < rest), part);
    } catch (...) {  // only memory can run out here
      if (!failed.exchange(true)) error = std::current_exception();
    }
  }
};

// Never destroyed: its threads may still wait when the process ends, and after a fork they are gone.
class Pool {
 public:
  const long owner = process_id();

  bool try_run(Job& job) {
    std::unique_lock<std::mutex> busy(busy_, std::try_to_lock);
    if (!busy.owns_lock()) return false;
    grow_to(job.parts - 1);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = &job;
      seats_ = job.parts - 1;
      ++round_;
    }
    wake_.notify_all();
    job.work();
    std::unique_lock<std::mutex> lock(mutex_);
    seats_ = 0;  // who has not started yet is not needed any more
    done_.wait(lock, [this] { return working_ == 0; });
    job_ = nullptr;
    return true;
  }

 private:
  void grow_to(int helpers) {
    try {
      for (; threads_ < helpers; ++threads_) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
      // The system gives no more threads: those that exist, and the caller, do the work.
    }
  }

  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (long seen = 0;;) {
      wake_.wait(lock, [&] { return round_ != seen && seats_ > 0; });
      seen = round_;
      --seats_;
      ++working_;
      Job* job = job_;
      lock.unlock();
      job->work();
      lock.lock();
      if (--working_ == 0) done_.notify_one();
    }
  }

  std::mutex busy_, mutex_;
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  int seats_ = 0, working_ = 0, threads_ = 0;
  long round_ = 0;
};

// The pool of this process. A child of fork has a copy of its parent's pool whose threads do not exist
// and whose locks may be held for ever: it gets a new one.
Pool& pool() {
  static std::atomic<Pool*> current{nullptr};
  Pool* found = current.load();
  while (found == nullptr || found->owner != process_id()) {
    auto fresh = std::make_unique<Pool>();
    if (current.compare_exchange_strong(found, fresh.get())) return *fresh.release();
  }
  return *found;
}

}  // namespace

int parts_of(size_t n, size_t grain, int threads) {
  const size_t most = n / (grain == 0 ? 1 : grain);
  const size_t wanted = threads < 1 ? 1 : static_cast<size_t>(threads);
  return static_cast<int>(most < 1 ? 1 : most < wanted ? most : wanted);
}

void parallel_for(size_t n, size_t grain, int threads, const Body& body) {
  Job job;
  job.body = &body;
  job.n = n;
  job.parts = parts_of(n, grain, threads);
  if (job.parts == 1 || !pool().try_run(job)) job.work();
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace intact
