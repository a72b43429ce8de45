#include "runtime/context.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/fp_env.h"

namespace intact {
namespace {

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// Leaves the thread pool when the scope ends, also by an exception.
struct Held {
  Executor* executor;
  std::atomic<bool>& running;
  ~Held() {
    if (executor != nullptr) executor->leave();
    running.store(false, std::memory_order_release);
  }
};

}  // namespace

Aligned make_aligned(size_t bytes) {
  // Pages that are fresh from the system are zero already, which `calloc` knows.
  void* const block = std::calloc(bytes + 63, 1);
  if (block == nullptr) throw std::bad_alloc();
  const auto address = reinterpret_cast<uintptr_t>(block);
  return {static_cast<uint8_t*>(block) + (align64(address) - address), FreeAligned{block}};
}

std::shared_ptr<Workspace> make_workspace() { return std::make_shared<Workspace>(); }

size_t Workspace::bytes_for(const Program& program, int threads) {
  return align64(program.blocks()[0].bytes + kSlack) + program.scratch() * static_cast<size_t>(threads);
}

void Workspace::fit(const Program& program, int threads) {
  const size_t wanted = bytes_for(program, threads);
  if (lent_ != nullptr) {
    if (wanted > lent_bytes_) refuse("the memory for runs is too small");
  } else if (own_ == nullptr || wanted > own_bytes_) {
    // Sizes that grow little by little would have fresh pages each time: a quarter more than the last ones.
    const size_t bytes = std::max(wanted, own_bytes_ + own_bytes_ / 4);
    own_.reset();  // before the larger one is there
    own_bytes_ = 0;
    own_ = make_aligned(bytes);
    own_bytes_ = bytes;
  }
  arena_ = lent_ == nullptr ? own_.get() : lent_;
  scratch_ = arena_ + align64(program.blocks()[0].bytes + kSlack);
}

void Workspace::lend(void* memory, size_t bytes) {
  lent_ = static_cast<uint8_t*>(memory);
  lent_bytes_ = memory == nullptr ? 0 : bytes;
  own_.reset();
  own_bytes_ = 0;
}

Context::Context(const Program& program, ThreadPool& thread_pool, bool checked)
    : Context(program, thread_pool, make_workspace()) {
  const size_t scratch = program.scratch() * static_cast<size_t>(thread_pool.threads());
  if (checked) checker_ = std::make_unique<Checker>(program, workspace_->scratch(), scratch);
}

Context::Context(const Program& program, ThreadPool& thread_pool, std::shared_ptr<Workspace> workspace)
    : program_(program), thread_pool_(thread_pool), workspace_(std::move(workspace)) {
  blocks_.reserve(program.blocks().size());
  for (const Block& b : program.blocks()) blocks_.push_back(const_cast<uint8_t*>(b.data));
  attach();
  for (const Window& w : program.windows()) {
    const bool each = w.of == Window::Of::time || w.count >= static_cast<size_t>(thread_pool.threads());
    if (!each) refuse("fewer parts than threads");
  }
  const auto seats = static_cast<size_t>(program.repeats().empty() ? 0 : thread_pool.threads());
  const Seat seat{blocks_, std::vector<double>(program.steps().size())};
  seats_.assign(seats, seat);
}

void Context::attach() {
  workspace_->fit(program_, thread_pool_.threads());
  blocks_[0] = workspace_->arena();
}

void Context::attach(std::shared_ptr<Workspace> workspace) {
  if (checker_ != nullptr) return;
  workspace_ = std::move(workspace);
  attach();
}

void Context::place(uint32_t block, const void* data, size_t bytes) {
  const bool known = block < program_.blocks().size();
  const BlockKind kind =
      known && program_.window_of(block) == nullptr ? program_.blocks()[block].kind : BlockKind::arena;
  if (kind != BlockKind::input && kind != BlockKind::output) {
    refuse("only inputs and outputs are placed");
  }
  const Block& b = program_.blocks()[block];
  if (bytes != b.bytes) refuse("an input or output has another size than its block");
  if (reinterpret_cast<uintptr_t>(data) % b.alignment != 0) {
    refuse("an input or output does not lie at a multiple of its element");
  }
  blocks_[block] = static_cast<uint8_t*>(const_cast<void*>(data));
}

void Context::check_range(size_t begin, size_t end) const {
  if (begin > end || end > program_.steps().size()) refuse("there are fewer steps");
  for (const Repeat& r : program_.repeats()) {
    const bool cut = (r.begin < begin && begin < r.end) || (r.begin < end && end < r.end);
    if (cut) refuse("repeated steps run all or not at all");
  }
  for (size_t i = 1; i < blocks_.size(); ++i) {
    const bool missing = blocks_[i] == nullptr && program_.blocks()[i].bytes > 0;
    if (missing && program_.window_of(i) == nullptr) refuse("an input or output has no place yet");
  }
}

size_t Context::run(size_t begin, size_t end, double* seconds, const std::atomic<bool>* cancelled) {
  check_range(begin, end);
  if (running_.exchange(true, std::memory_order_acquire)) {
    refuse("another run uses this context");
  }
  Held held{nullptr, running_};
  held.executor = thread_pool_.try_take();
  const ScopedFpEnv env;
  failed_.store(false, std::memory_order_relaxed);
  cancelled_ = cancelled;
  for (size_t i = begin; i < end;) {
    if (is_cancelled()) return i;
    if (const Repeat* repeat = program_.repeat_from(i)) {
      run_repeat(*repeat, held.executor, seconds);
      if (is_cancelled() || failed()) return i;  // which of its steps ran is not known
      i = repeat->end;
      continue;
    }
    const double start = seconds == nullptr ? 0 : now();
    if (checker_ == nullptr) {
      run_step(i, held.executor);
    } else {
      checker_->run(i, blocks_.data(), [&] { run_step(i, held.executor); });
    }
    if (seconds != nullptr) seconds[i] = now() - start;
    if (failed()) return i;
    ++i;
  }
  return end;
}

void Context::run_step(size_t i, Executor* executor) {
  const Step& step = *program_.steps()[i];
  const Memory memory(blocks_.data(), program_.ahead(i), &failed_);
  const size_t items = step.items();
  if (executor != nullptr && items > 1) {
    executor->deal(items, [&](size_t first, size_t last, int seat) {
      step.run(memory, first, last, workspace_->scratch() + program_.scratch() * static_cast<size_t>(seat));
    });
  } else if (items > 0) {
    step.run(memory, 0, items, workspace_->scratch());
  }
}

void Context::run_repeat(const Repeat& repeat, Executor* executor, double* seconds) {
  for (Seat& seat : seats_) {
    std::copy(blocks_.begin(), blocks_.end(), seat.blocks.begin());
    std::fill(seat.seconds.begin(), seat.seconds.end(), 0.0);
  }
  const auto run_times = [&](size_t first, size_t last, int seat) {
    for (size_t time = first; time < last; ++time) {
      run_once(repeat, time, static_cast<size_t>(seat), seconds != nullptr);
    }
  };
  const double start = seconds == nullptr ? 0 : now();
  if (executor == nullptr || checker_ != nullptr) {
    run_times(0, repeat.times, 0);
  } else {
    executor->deal(repeat.times, run_times);
  }
  if (seconds == nullptr) return;
  const double whole = now() - start;
  double all = 0;
  for (size_t i = repeat.begin; i < repeat.end; ++i) {
    seconds[i] = 0;
    for (const Seat& seat : seats_) seconds[i] += seat.seconds[i];
    all += seconds[i];
  }
  // Seats run side by side: what their steps took together is more than what has passed.
  for (size_t i = repeat.begin; i < repeat.end && all > 0; ++i) seconds[i] *= whole / all;
}

void Context::run_once(const Repeat& repeat, size_t time, size_t number, bool timed) {
  Seat& seat = seats_[number];
  for (const Window& w : program_.windows()) {
    const size_t part = w.of == Window::Of::time ? time : number;
    if (part < w.count) seat.blocks[w.block] = blocks_[w.parent] + w.offset + part * w.stride;
  }
  uint8_t* const scratch = workspace_->scratch() + program_.scratch() * number;
  for (size_t i = repeat.begin; i < repeat.end && !is_cancelled(); ++i) {
    const Step& step = *program_.steps()[i];
    const Memory memory(seat.blocks.data(), program_.ahead(i), &failed_);
    const double start = timed ? now() : 0;
    if (checker_ == nullptr) {
      step.run(memory, 0, step.items(), scratch);
    } else {
      checker_->run(i, seat.blocks.data(), [&] { step.run(memory, 0, step.items(), scratch); });
    }
    if (timed) seat.seconds[i] += now() - start;
  }
}

}  // namespace intact
