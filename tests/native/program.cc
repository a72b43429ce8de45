// What a program refuses: views that leave their blocks, windows and contexts that do not fit. Each refusal is
// an exception with the words that are wanted. Ends with status 0, or says what was not refused.
#include <cstdio>
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

constexpr uint32_t kArena = 0, kConstant = 1, kInput = 2, kOutput = 3;
constexpr size_t kArenaBytes = 1000;
int failures = 0;

// Writes one view, or reads one.
class Touch final : public Step {
 public:
  Touch(const View& view, bool is_write) {
    if (is_write) {
      writes(view);
    } else {
      reads(view);
    }
  }
  size_t items() const override { return 1; }
  void run(const Memory&, size_t, size_t, uint8_t*) const noexcept override {}
};

std::shared_ptr<const Step> write(const View& view) { return std::make_shared<Touch>(view, true); }
std::shared_ptr<const Step> read(const View& view) { return std::make_shared<Touch>(view, false); }

View row(uint32_t block, size_t offset, int64_t size, int64_t stride = 1, Type type = Type::u8) {
  View v;
  v.block = block;
  v.offset = offset;
  v.type = type;
  v.rank = 1;
  v.sizes[0] = size;
  v.strides[0] = stride;
  return v;
}

// Rows of 10 pixels of 4 bytes, row pitch 40, in the arena.
View image(size_t offset, std::array<int64_t, 4> sizes, std::array<int64_t, 4> halo) {
  View v;
  v.offset = offset;
  v.rank = 4;
  for (size_t i = 0; i < 4; ++i) v.sizes[i] = sizes[i];
  const int64_t strides[] = {120, 40, 4, 1};
  for (size_t i = 0; i < 4; ++i) v.strides[i] = strides[i];
  v.halo = halo;
  return v;
}

std::vector<uint8_t> constant(100);

// Blocks of 100, 200 and 300 bytes behind the arena.
Program blocks() {
  Program program;
  program.arena(kArenaBytes);
  program.constant(constant.data(), constant.size());
  program.input(200);
  program.output(300);
  return program;
}

// `wanted` are words of the refusal; "" where there is none.
void expect(const char* name, const char* wanted, const std::function<void()>& act) {
  std::string found;
  try {
    act();
  } catch (const std::exception& error) {
    found = error.what();
  }
  const bool right = *wanted == 0 ? found.empty() : found.find(wanted) != std::string::npos;
  if (right) return;
  std::fprintf(stderr, "%s: got '%s', want '%s'\n", name, found.c_str(), wanted);
  ++failures;
}

void expect_add(const char* name, const char* wanted, const std::shared_ptr<const Step>& step) {
  expect(name, wanted, [&] { blocks().add(step); });
}

void test_views() {
  const char *const leaves = "leaves its block", *const only = "writes into an input or a constant";
  expect_add("a block that is not there", "a block that does not exist", write(row(9, 0, 1)));
  expect_add("the last byte", leaves, write(row(kArena, kArenaBytes - 9, 10)));
  expect_add("backwards", leaves, write(row(kOutput, 5, 7, -1)));
  expect_add("far", leaves, write(row(kArena, 0, 2, int64_t{1} << 45)));
  expect_add("farther", "too large", write(row(kArena, 0, 2, int64_t{1} << 47)));
  expect_add("an offset", leaves, write(row(kArena, size_t{1} << 62, 1)));
  expect_add("a constant", only, write(row(kConstant, 0, 5)));
  expect_add("an input", only, write(row(kInput, 0, 5)));
  expect_add("nothing far away", "", read(row(kInput, 1000000, 0)));
  const char* const odd = "no multiple of its element";
  expect_add("an odd offset", odd, write(row(kArena, 2, 4, 4, Type::f32)));
  expect_add("an odd stride", odd, write(row(kArena, 0, 4, 6, Type::f32)));
  expect_add("aligned floats", "", write(row(kArena, 8, 4, 4, Type::f32)));
}

// The halo is read and written although no element of it is in the image, which may have no pixels at all.
void test_halos() {
  struct Case {
    size_t offset;
    std::array<int64_t, 4> sizes, halo;
    bool fits;
  };
  const std::array<int64_t, 4> three{1, 3, 10, 4}, none{1, 0, 10, 4};
  const Case cases[] = {
      {0, three, {0, 0, 0, 0}, true},
      {40, three, {1, 0, 0, 0}, true},
      {39, three, {1, 0, 0, 0}, false},
      {44, three, {1, 1, 0, 0}, true},
      {43, three, {1, 1, 0, 0}, false},
      {880, three, {0, 0, 1, 0}, false},
      {840, three, {0, 0, 1, 0}, true},
      {841, three, {0, 0, 1, 0}, false},
      {5000, none, {0, 0, 0, 0}, true},
      {5000, {0, 3, 10, 4}, {9, 9, 9, 9}, true},
      {5000, {1, 3, 10, 0}, {9, 9, 9, 9}, true},
      {5000, none, {0, 9, 0, 9}, true},
      {880, none, {0, 0, 3, 0}, true},
      {881, none, {0, 0, 3, 0}, false},
      {120, none, {3, 0, 0, 0}, true},
      {119, none, {3, 0, 0, 0}, false},
      {1000, none, {1, 0, 0, 0}, true},
      {1001, none, {1, 0, 0, 0}, false},
      {0, {1, 0, 0, 4}, {0, 0, 1, 10}, true},
      {0, {1, 0, 0, 4}, {0, 0, 99, 99}, false},
  };
  int number = 0;
  for (const Case& c : cases) {
    const std::string name = "halo " + std::to_string(number++);
    const char* const wanted = c.fits ? "" : "leaves its block";
    expect_add(name.c_str(), wanted, read(image(c.offset, c.sizes, c.halo)));
  }
}

void test_tensors() {
  const auto add = [](const std::vector<std::pair<size_t, size_t>>& tensors, size_t offset, int64_t size,
                      bool fits) {
    Program program = blocks();
    for (const auto& [first, bytes] : tensors) program.tensor(first, bytes);
    const std::string name = "bytes at " + std::to_string(offset) + ", " + std::to_string(size);
    expect(name.c_str(), fits ? "" : "leaves its tensor",
           [&] { program.add(write(row(kArena, offset, size))); });
  };
  const std::vector<std::pair<size_t, size_t>> apart{{0, 64}, {128, 64}};
  add(apart, 0, 64, true);
  add(apart, 130, 62, true);
  add(apart, 0, 65, false);
  add(apart, 64, 64, false);  // in the memory of the next one
  add(apart, 130, 63, false);
  const std::vector<std::pair<size_t, size_t>> shared{{300, 20}, {64, 256}, {100, 40}, {0, 16}};
  add(shared, 64, 256, true);
  add(shared, 110, 200, true);
  add(shared, 310, 10, true);
  add(shared, 16, 1, false);
  add(shared, 300, 21, false);
  add(shared, 0, 100, false);
}

void test_windows() {
  const auto of = Window::Of::time;
  const char* const leaves = "leaves its tensor";
  expect("no parent", "a block that does not exist", [&] { blocks().window(of, 9, 0, 40, 5, 8); });
  expect("no part", "one part or more", [&] { blocks().window(of, kInput, 0, 40, 5, 0); });
  expect("a stride", leaves, [&] { blocks().window(of, kInput, 0, 40, 6, 8); });
  expect("a far stride", leaves, [&] { blocks().window(of, kInput, 0, 40, size_t{1} << 63, 8); });
  expect("many bytes", leaves, [&] { blocks().window(of, kInput, 0, size_t{1} << 50, 5, 8); });
  Program program = blocks();
  const uint32_t window = program.window(of, kOutput, 0, 40, 5, 8);
  const auto add = [&](const char* name, const char* wanted, const std::shared_ptr<const Step>& step) {
    expect(name, wanted, [&] { program.add(step); });
  };
  expect("twice", "a window on a window", [&] { program.window(of, window, 0, 5, 1, 2); });
  add("no repeat", "steps that are repeated", write(row(window, 0, 5)));
  program.repeat(7);
  add("other times", "a part for each time", write(row(window, 0, 5)));
  program.repeat(8);
  add("beyond its part", "leaves its block", write(row(window, 0, 6)));
  add("a whole block", "overwrites what it made before", write(row(kOutput, 0, 5)));
  add("beyond the parent", "leaves its block", write(row(program.window(of, kOutput, 290, 40, 5, 8), 0, 5)));
  add("an odd step", "multiple of its element",
      read(row(program.window(of, kInput, 0, 90, 10, 8), 0, 4, 4, Type::f32)));
  add("its part", "", write(row(window, 0, 5)));
  Program tensors = blocks();
  tensors.tensor(0, 64);
  tensors.repeat(2);
  const uint32_t beyond = tensors.window(of, kArena, 32, 64, 32, 2);
  expect("beyond its tensor", leaves, [&] { tensors.add(write(row(beyond, 0, 5))); });
}

void test_contexts() {
  ThreadPool alone(1, false), three(3, false);
  Program program = blocks();
  program.add(write(row(kOutput, 0, 300)));
  expect("an arena behind a step", "before the first step", [&] { program.arena(10); });
  Context context(program, alone, false);
  for (size_t i = 0; i < kArenaBytes; ++i) {
    if (context.arena()[i] != 0) expect("the arena", "0", [] {});
  }
  expect("a run without arrays", "has no place yet", [&] { context.run(0, 1, nullptr); });
  std::vector<uint8_t> input(201), output(300);
  expect("a short input", "another size than its block", [&] { context.place(kInput, input.data(), 199); });
  expect("a long output", "another size than its block", [&] { context.place(kOutput, output.data(), 301); });
  expect("a constant", "only inputs and outputs are placed",
         [&] { context.place(kConstant, input.data(), 100); });
  context.place(kInput, input.data(), 200);
  context.place(kOutput, output.data(), 300);
  expect("a run", "", [&] { context.run(0, 1, nullptr); });
  expect("a step too many", "fewer steps", [&] { context.run(0, 2, nullptr); });
  Program floats = blocks();
  floats.add(read(row(kInput, 0, 4, 4, Type::f32)));
  Context aligned(floats, alone, false);
  expect("an odd address", "does not lie at a multiple",
         [&] { aligned.place(kInput, input.data() + 1, 200); });
  Program repeated = blocks();
  const uint32_t window = repeated.window(Window::Of::time, kOutput, 0, 40, 5, 8);
  repeated.repeat(8);
  repeated.add(write(row(window, 0, 5)));
  repeated.add(write(row(window, 0, 5)));
  Context part(repeated, alone, false);
  expect("half of a repeat", "all or not at all", [&] { part.run(0, 1, nullptr); });
  Program own = blocks();
  own.window(Window::Of::thread, kArena, 0, 100, 50, 2);
  expect("threads without memory", "fewer parts than threads", [&] { Context(own, three, false); });
}

int main_() {
  test_views();
  test_halos();
  test_tensors();
  test_windows();
  test_contexts();
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace intact

int main() { return intact::main_(); }
