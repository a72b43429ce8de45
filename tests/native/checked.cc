// Steps that break their word, in checked runs: each is found out. Ends with status 0, or says what was not.
// With the argument "outside", a step reads what it does not declare: AddressSanitizer's to find.
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/program.h"
#include "runtime/thread_pool.h"

namespace intact {
namespace {

constexpr size_t kSize = 64, kGap = 64;

View bytes(size_t offset, size_t n, int64_t stride = 1) {
  View v;
  v.offset = offset;
  v.rank = 1;
  v.sizes[0] = static_cast<int64_t>(n);
  v.strides[0] = stride;
  return v;
}

using Body = std::function<void(const uint8_t* x, uint8_t* y, uint8_t* scratch)>;

// From x, at the start of the arena, to y behind it; does what `body` does.
class Act final : public Step {
 public:
  Act(const View& x, const View& y, Body body, size_t slack = 0) : x_(x), y_(y), body_(std::move(body)) {
    reads(x, slack);
    writes(y);
  }
  size_t items() const override { return 1; }
  size_t scratch() const override { return kSize; }
  void run(const Memory& memory, size_t, size_t, uint8_t* scratch) const noexcept override {
    body_(x_.at<uint8_t>(memory), y_.at<uint8_t>(memory), scratch);
  }

 private:
  View x_, y_;
  Body body_;
};

const View kX = bytes(0, kSize), kY = bytes(kSize + kGap, kSize);

// Returns the finding of a checked run of a step; "" where there is none.
std::string verdict(const std::shared_ptr<const Step>& step, std::vector<uint8_t>* arena = nullptr) {
  Program program;
  program.arena(4 * kSize + kGap);
  program.add(step);
  ThreadPool alone(1, false);
  Context context(program, alone, true);
  for (size_t i = 0; i < 4 * kSize + kGap; ++i) context.arena()[i] = static_cast<uint8_t>(i % 100);
  try {
    context.run(0, 1, nullptr);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  if (arena != nullptr) arena->assign(context.arena(), context.arena() + program.blocks()[0].bytes);
  return "";
}

bool demand(const char* name, const std::string& found, const char* wanted) {
  const bool right = *wanted == 0 ? found.empty() : found.find(wanted) != std::string::npos;
  if (!right) std::fprintf(stderr, "%s: found '%s', wanted '%s'\n", name, found.c_str(), wanted);
  return right;
}

std::shared_ptr<const Step> act(const Body& body, const View& x = kX, const View& y = kY, size_t slack = 0) {
  return std::make_shared<Act>(x, y, body, slack);
}

void copy(const uint8_t* x, uint8_t* y, uint8_t*) { std::memcpy(y, x, kSize); }

bool test_honest_steps() {
  std::vector<uint8_t> arena;
  bool right = demand("a copy", verdict(act(copy), &arena), "");
  for (size_t i = 0; i < arena.size(); ++i) {
    const size_t from = i >= kY.offset && i < kY.offset + kSize ? i - kY.offset : i;
    right = right && arena[i] == from % 100;
  }
  if (!right) std::fprintf(stderr, "a checked run leaves other memory than an unchecked one\n");
  const auto increase = [](const uint8_t* x, uint8_t* y, uint8_t*) {
    for (size_t i = 0; i < kSize; ++i) y[i] = static_cast<uint8_t>(x[i] + 1);
  };
  right = demand("in place", verdict(act(increase, kX, kX), &arena), "") && right && arena[9] == 10;
  const auto every_other = [](const uint8_t* x, uint8_t* y, uint8_t*) {
    for (size_t i = 0; i < kSize; i += 2) y[i] = x[i];
  };
  const View x = bytes(0, kSize / 2, 2), y = bytes(kY.offset, kSize / 2, 2);
  const auto slack = [](const uint8_t* from, uint8_t* to, uint8_t*) {
    for (size_t i = 0; i < kSize; ++i) to[i] = static_cast<uint8_t>(from[i] + 0 * from[i + 8]);
  };
  right = demand("slack that does not matter", verdict(act(slack, kX, kY, 8)), "") && right;
  return demand("every other byte", verdict(act(every_other, x, y)), "") && right;
}

bool test_broken_words() {
  struct Case {
    const char* name;
    std::shared_ptr<const Step> step;
    const char* wanted;
  };
  View narrow = kX;
  narrow.low = 3;
  View low = kX;
  low.high = 62;
  const auto also = [](size_t at) {
    return [at](const uint8_t* x, uint8_t* y, uint8_t* scratch) {
      copy(x, y, scratch);
      y[at] = static_cast<uint8_t>(y[at] + 1);
    };
  };
  const View y = bytes(kY.offset, kSize / 2, 2);
  const auto slack = [](const uint8_t* x, uint8_t* to, uint8_t*) { to[0] = x[kSize]; };
  const auto scratch = [](const uint8_t*, uint8_t* to, uint8_t* from) { to[5] = from[7]; };
  const auto input = [](const uint8_t* x, uint8_t*, uint8_t*) { const_cast<uint8_t*>(x)[3] ^= 1; };
  const Case cases[] = {
      {"a byte below", act(copy, narrow), "cannot hold"},
      {"a byte above", act(copy, low), "cannot hold"},
      {"slack that matters", act(slack, kX, kY, 8), "depends on"},
      {"scratch that nobody filled", act(scratch), "depends on"},
#if !defined(__SANITIZE_ADDRESS__)  // which ends the process at once
      {"a byte behind", act(also(kSize)), "does not declare"},
      {"what it only reads", act(input), "does not declare"},
      {"between strides", act(copy, kX, y), "does not declare"},
#endif
  };
  bool right = true;
  for (const Case& c : cases) right = demand(c.name, verdict(c.step), c.wanted) && right;
  return right;
}

// The halo belongs to who fills it: others that write the image leave it alone.
bool test_halos() {
  View image;
  image.rank = 4;
  image.sizes = {1, 2, 2, 4};
  image.strides = {64, 16, 4, 1};
  image.offset = 64;
  image.halo = {1, 1, 1, 1};
  const auto inside = [](const uint8_t*, uint8_t* y, uint8_t*) { y[0] = y[16] = 7; };
  const auto around = [](const uint8_t*, uint8_t* y, uint8_t*) { y[-4] = 7; };
  const View x = bytes(200, 4);
  const bool right = demand("an image", verdict(act(inside, x, image)), "");
#if defined(__SANITIZE_ADDRESS__)
  return right && around != nullptr;
#else
  return demand("its halo", verdict(act(around, x, image)), "does not declare") && right;
#endif
}

int main_(bool outside) {
  if (outside) {
    verdict(act([](const uint8_t* x, uint8_t* y, uint8_t*) {
      y[0] = *static_cast<const volatile uint8_t*>(x + kSize + 16);
    }));
    std::fprintf(stderr, "a read of what is not declared was not found\n");
    return 1;
  }
  const bool honest = test_honest_steps(), broken = test_broken_words(), halos = test_halos();
  return honest && broken && halos ? 0 : 1;
}

}  // namespace
}  // namespace intact

int main(int argc, char** argv) { return intact::main_(argc > 1 && std::string(argv[1]) == "outside"); }
