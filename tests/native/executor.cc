// Programs run by a thread pool, from several threads at once: under ThreadSanitizer, nothing races; results
// are those of one thread. Ends with status 0, or says what differs.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "runtime/context.h"
#include "runtime/program.h"
#include "runtime/thread_pool.h"

namespace intact {
namespace {

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

// y[i] = x[i] + x[n - 1 - i] + 1 in pieces of `grain`: every piece reads what other threads have written.
class Fold : public Step {
 public:
  Fold(const View& x, const View& y, size_t grain) : x_(x), y_(y), grain_(grain) {
    reads(x);
    writes(y);
  }
  size_t items() const override { return (size() + grain_ - 1) / grain_; }
  size_t scratch() const override { return grain_; }
  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const uint8_t* x = x_.at<uint8_t>(memory);
    uint8_t* y = y_.at<uint8_t>(memory);
    const size_t n = size();
    for (size_t item = begin; item < end; ++item) {
      const size_t from = item * grain_, to = from + grain_ < n ? from + grain_ : n;
      for (size_t i = from; i < to; ++i) scratch[i - from] = static_cast<uint8_t>(x[i] + x[n - 1 - i] + 1);
      for (size_t i = from; i < to; ++i) y[i] = scratch[i - from];
    }
  }

 private:
  size_t size() const { return static_cast<size_t>(x_.elements()); }
  View x_, y_;
  size_t grain_;
};

View bytes(uint32_t block, size_t offset, size_t n) {
  View v;
  v.block = block;
  v.offset = offset;
  v.rank = 1;
  v.sizes[0] = static_cast<int64_t>(n);
  v.strides[0] = 1;
  return v;
}

constexpr size_t kSize = 4096, kSteps = 40;

// Steps of many pieces and of one, by turns, from the input through two places of the arena to the output.
std::unique_ptr<Program> make_program() {
  auto p = std::make_unique<Program>();
  p->arena(2 * kSize);
  const uint32_t x = p->input(kSize), y = p->output(kSize);
  View from = bytes(x, 0, kSize);
  for (size_t i = 0; i < kSteps; ++i) {
    const View to = i + 1 == kSteps ? bytes(y, 0, kSize) : bytes(0, i % 2 * kSize, kSize);
    const size_t grains[] = {1, 64, 300, kSize};
    p->add(std::make_shared<Fold>(from, to, grains[i % 4]));
    from = to;
  }
  return p;
}

std::vector<uint8_t> run(Context& context, const std::vector<uint8_t>& x) {
  std::vector<uint8_t> y(kSize);
  context.place(1, x.data(), kSize);
  context.place(2, y.data(), kSize);
  context.run(0, kSteps, nullptr);
  return y;
}

// Several callers, each with a context of its own: one has the thread pool, the others work alone.
void test_callers(int threads, bool spin, int callers, int rounds, const HostPool& host = {}) {
  const auto program = make_program();
  std::vector<uint8_t> x(kSize);
  for (size_t i = 0; i < kSize; ++i) x[i] = static_cast<uint8_t>(i * 7 + i / 256);
  ThreadPool alone(1, false), thread_pool(threads, spin, host);
  Context reference(*program, alone);
  const std::vector<uint8_t> want = run(reference, x);
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int c = 0; c < callers; ++c) {
    all.emplace_back([&] {
      Context context(*program, thread_pool);
      for (int i = 0; i < rounds; ++i) wrong += run(context, x) != want;
    });
  }
  for (std::thread& t : all) t.join();
  demand(wrong == 0, "a run of several threads gave other bytes than a run of one");
}

// Threads of a program around: one for each piece, except for the last, which the caller runs.
void run_on_new_threads(void*, void (*piece)(void*, int32_t), void* job, int32_t count) {
  std::vector<std::thread> all;
  for (int32_t i = 0; i + 1 < count; ++i) all.emplace_back(piece, job, i);
  piece(job, count - 1);
  for (std::thread& t : all) t.join();
}

void run_one_piece(void*, void (*piece)(void*, int32_t), void* job, int32_t count) { piece(job, count / 2); }

// Rows of the input become rows of the output, each by way of memory that its thread has for itself.
std::unique_ptr<Program> make_repeated(size_t times, size_t threads) {
  auto p = std::make_unique<Program>();
  const size_t row = kSize / times;
  p->arena(2 * row * threads);
  const uint32_t x = p->input(kSize), y = p->output(kSize);
  const uint32_t from = p->window(Window::Of::time, x, 0, kSize, row, times);
  const uint32_t to = p->window(Window::Of::time, y, 0, kSize, row, times);
  const uint32_t own = p->window(Window::Of::thread, 0, 0, 2 * row * threads, 2 * row, threads);
  p->repeat(times);
  p->add(std::make_shared<Fold>(bytes(from, 0, row), bytes(own, 0, row), 7));
  p->add(std::make_shared<Fold>(bytes(own, 0, row), bytes(own, row, row), 3));
  p->add(std::make_shared<Fold>(bytes(own, row, row), bytes(to, 0, row), row));
  return p;
}

void test_repeats(int threads, size_t times, const HostPool& host = {}) {
  std::vector<uint8_t> x(kSize);
  for (size_t i = 0; i < kSize; ++i) x[i] = static_cast<uint8_t>(i * 5 + i / 256);
  const auto run_with = [&](int with, double* seconds) {
    const auto program = make_repeated(times, static_cast<size_t>(with));
    ThreadPool thread_pool(with, true, host);
    Context context(*program, thread_pool);
    std::vector<uint8_t> y(kSize);
    context.place(1, x.data(), kSize);
    context.place(2, y.data(), kSize);
    for (int i = 0; i < 50; ++i) context.run(0, 3, seconds);
    return y;
  };
  double seconds[3];
  demand(run_with(threads, seconds) == run_with(1, nullptr), "repeats of several threads gave other bytes");
}

// Two runs must not share a context.
void test_one_run_for_each_context() {
  const auto program = make_program();
  const std::vector<uint8_t> x(kSize, 1);
  ThreadPool thread_pool(2, true);
  Context context(*program, thread_pool);
  std::vector<uint8_t> y(kSize);
  context.place(1, x.data(), kSize);
  context.place(2, y.data(), kSize);
  std::atomic<int> ran{0}, refused{0};
  const auto often = [&] {
    for (int i = 0; i < 200; ++i) {
      try {
        context.run(0, kSteps, nullptr);
        ++ran;
      } catch (const std::invalid_argument&) {
        ++refused;
      }
    }
  };
  std::thread other(often);
  often();
  other.join();
  demand(ran + refused == 400 && ran > 0, "every run is done or refused");
}

// Several callers of parallel_for: one has the threads, the others work alone. Every part is done once, and
// what one throws comes back.
void test_parts(int callers) {
  std::atomic<int> wrong{0};
  const auto often = [&] {
    for (int threads = 1; threads < 9; ++threads) {
      std::vector<int> times(1000);
      std::vector<int> parts(8);
      parallel_for(times.size(), 10, threads, [&](size_t begin, size_t end, int part) {
        ++parts[static_cast<size_t>(part)];
        for (size_t i = begin; i < end; ++i) ++times[i];
      });
      for (const int n : times) wrong += n != 1;
      for (int part = 0; part < 8; ++part) wrong += parts[static_cast<size_t>(part)] != (part < threads);
      const auto fails = [](size_t, size_t, int part) {
        if (part == 0) throw std::bad_alloc();
      };
      try {
        parallel_for(100, 1, threads, fails);
        ++wrong;
      } catch (const std::bad_alloc&) {
      }
    }
  };
  std::vector<std::thread> all;
  for (int c = 0; c < callers; ++c)
    all.emplace_back([&] {
      for (int i = 0; i < 20; ++i) often();
    });
  for (std::thread& t : all) t.join();
  demand(wrong == 0, "a part was done twice, or never, or its failure was lost");
}

int main_() {
  test_parts(1);
  test_parts(3);
  for (const bool spin : {false, true}) {
    test_callers(2, spin, 1, 40);
    test_callers(4, spin, 3, 15);
    test_callers(7, spin, 1, 10);  // more threads than this machine may have cores
  }
  for (const int threads : {1, 2, 5}) {
    for (const size_t times : {2, 16, 64}) test_repeats(threads, times);
  }
  for (const auto parallel_for : {run_on_new_threads, run_one_piece}) {
    test_callers(3, false, 2, 5, {parallel_for, nullptr});
    test_repeats(3, 16, {parallel_for, nullptr});
  }
  test_one_run_for_each_context();
  for (int i = 0; i < 50; ++i) ThreadPool(3, true);  // never used
  for (int i = 0; i < 20; ++i) test_callers(3, i % 2 == 0, 2, 1);  // dissolved while it looks for work
  return 0;
}

}  // namespace
}  // namespace intact

int main() { return intact::main_(); }
