#include "runtime/thread_pool.h"

#include <chrono>
#include <memory>
#include <system_error>

#include "base/fp_env.h"
#include "base/tuning.h"
#include "runtime/dealing.h"

#if !defined(_WIN32)
#include <unistd.h>
#endif
#if INTACT_ARCH_X86
#include <immintrin.h>
#endif

namespace intact {
namespace {

using namespace tuning::threads;

long process_id() {
#if defined(_WIN32)
  return 0;  // no fork there
#else
  return static_cast<long>(getpid());
#endif
}

void pause() {
#if INTACT_ARCH_X86
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns whether `ready` becomes true within the time for which spinning pays.
template <class Ready>
bool look(bool spin, const Ready& ready) {
  if (ready()) return true;
  if (!spin) return false;
  for (int i = 0; i < kEagerLooks; ++i) {
    pause();
    if (ready()) return true;
  }
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
    if (ready()) return true;
  }
  return false;
}

}  // namespace

Workers::Workers(bool spin) : owner(process_id()), spin_(spin) {}

Workers::~Workers() {
  stop_.store(true);
  bell_.fetch_add(1);
  bell_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::grow_to(int threads) {
  if (threads <= wanted_) return;
  wanted_ = threads;
  try {
    for (int seat = static_cast<int>(threads_.size()) + 1; seat < threads; ++seat) {
      threads_.emplace_back([this, seat] { serve(seat); });
    }
  } catch (const std::system_error&) {
    // The system gives no more threads: those that exist, and the caller, do the work.
  }
}

void Workers::deal_job(Job job) {
  job.chunks = chunks_of(job.items, threads_.size() + 1);
  done_.store(0, std::memory_order_relaxed);
  chunks_.open(job);
  ring();
  wait_for_done(static_cast<uint32_t>(job.chunks) - chunks_.work(0));
}

// The store that opens chunks before and the load of asleep_ here are sequentially consistent, as are the
// store and load of a thread that goes to sleep. So at least one of the two threads sees the store of the
// other.
void Workers::ring() {
  if (!asleep_.load() || !asleep_.exchange(false)) return;
  bell_.fetch_add(1);
  bell_.notify_all();
}

void Workers::serve(int seat) {
  const ScopedFpEnv env;
  while (wait_for_work()) {
    const uint32_t mine = chunks_.work(seat);
    if (mine == 0) continue;
    done_.fetch_add(mine, std::memory_order_acq_rel);
    done_.notify_one();
  }
}

// Returns false when the workers are shut down.
bool Workers::wait_for_work() {
  const auto ready = [this] { return chunks_.are_left() || stop_.load(std::memory_order_relaxed); };
  while (!look(spin_, ready)) {
    const uint32_t heard = bell_.load();
    asleep_.store(true);
    if (!ready()) bell_.wait(heard);
  }
  return !stop_.load();
}

void Workers::wait_for_done(uint32_t count) {
  const auto ready = [&] { return done_.load(std::memory_order_acquire) == count; };
  if (look(spin_, ready)) return;
  for (uint32_t seen; (seen = done_.load(std::memory_order_acquire)) != count;) done_.wait(seen);
}

ThreadPool::ThreadPool(int threads, bool spin, const HostPool& host)
    : threads_(threads < 1 ? 1 : threads), spin_(spin) {
  if (host.parallel_for != nullptr) host_executor_.emplace(host, threads_);
}

ThreadPool::~ThreadPool() {
  const Workers* workers = workers_.load();
  if (workers != nullptr && workers->owner == process_id()) delete workers;
}

Executor* ThreadPool::try_take(int threads) {
  if (threads < 2) return nullptr;
  if (host_executor_) return &*host_executor_;
  Workers* found = workers_.load();
  while (found == nullptr || found->owner != process_id()) {
    auto fresh = std::make_unique<Workers>(spin_);
    if (workers_.compare_exchange_strong(found, fresh.get())) found = fresh.release();
  }
  if (!found->try_take()) return nullptr;
  found->grow_to(threads);
  return found;
}

int parts_of(size_t n, size_t grain, int threads) {
  const size_t most = n / (grain == 0 ? 1 : grain);
  const size_t wanted = threads < 1 ? 1 : static_cast<size_t>(threads);
  return static_cast<int>(most < 1 ? 1 : most < wanted ? most : wanted);
}

// Never destroyed, because its threads may still wait when the process ends. They do not spin, because the
// next call may be far away.
ThreadPool& shared_pool() {
  static auto* const pool = new ThreadPool(1, false);
  return *pool;
}

}  // namespace intact
