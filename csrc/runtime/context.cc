#include "runtime/context.h"

#include <chrono>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/fp_env.h"

namespace intact {
namespace {

constexpr std::align_val_t kAlignment{64};

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// Gives back what it holds, whatever happens.
struct Held {
  Workers* workers;
  std::atomic<bool>& running;
  ~Held() {
    if (workers != nullptr) workers->leave();
    running.store(false, std::memory_order_release);
  }
};

}  // namespace

void FreeAligned::operator()(uint8_t* p) const { ::operator delete(p, kAlignment); }

Aligned make_aligned(size_t bytes) {
  auto* p = static_cast<uint8_t*>(::operator new(bytes, kAlignment));
  std::memset(p, 0, bytes);
  return Aligned(p);
}

Context::Context(const Program& program, ThreadPool& thread_pool, bool checked)
    : program_(program), thread_pool_(thread_pool) {
  arena_ = make_aligned(program.blocks()[0].bytes + kSlack);
  const size_t scratch = program.scratch() * static_cast<size_t>(thread_pool.threads());
  scratch_ = make_aligned(scratch);
  for (const Block& b : program.blocks()) blocks_.push_back(const_cast<uint8_t*>(b.data));
  blocks_[0] = arena_.get();
  if (checked) checker_ = std::make_unique<Checker>(program, blocks_.data(), scratch_.get(), scratch);
}

void Context::place(uint32_t block, const void* data, size_t bytes) {
  const bool known = block < program_.blocks().size();
  const BlockKind kind = known ? program_.blocks()[block].kind : BlockKind::arena;
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

size_t Context::run(size_t begin, size_t end, double* seconds) {
  const auto& steps = program_.steps();
  if (begin > end || end > steps.size()) refuse("there are fewer steps");
  for (size_t i = 1; i < blocks_.size(); ++i) {
    const bool missing = blocks_[i] == nullptr && program_.blocks()[i].bytes > 0;
    if (missing) refuse("an input or output has no place yet");
  }
  if (running_.exchange(true, std::memory_order_acquire)) {
    refuse("another run uses this context");
  }
  Held held{nullptr, running_};
  held.workers = thread_pool_.try_take();
  const ScopedFpEnv env;
  failed_.store(false, std::memory_order_relaxed);
  uint8_t* const scratch = scratch_.get();
  const size_t each = program_.scratch();
  const auto run_step = [&](size_t i) {
    const Step& step = *steps[i];
    const Memory memory(blocks_.data(), program_.ahead(i), &failed_);
    const size_t items = step.items();
    if (held.workers != nullptr && items > 1) {
      held.workers->deal(items, [&](size_t first, size_t last, int seat) {
        step.run(memory, first, last, scratch + each * static_cast<size_t>(seat));
      });
    } else if (items > 0) {
      step.run(memory, 0, items, scratch);
    }
  };
  for (size_t i = begin; i < end; ++i) {
    const double start = seconds == nullptr ? 0 : now();
    if (checker_ == nullptr) {
      run_step(i);
    } else {
      checker_->run(i, [&] { run_step(i); });
    }
    if (seconds != nullptr) seconds[i] = now() - start;
    if (failed_.load(std::memory_order_relaxed)) return i;
  }
  return end;
}

}  // namespace intact
