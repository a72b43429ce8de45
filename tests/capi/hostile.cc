// Opens every file that it is given as a plan, through the C interface, and runs it where it opens: a damaged or
// deceitful plan ends in an error, never in a crash. With sanitizers it is the test of what strangers may do to
// the reader and the binder.
//
//   hostile plans                  each as it is, and prints how many ended in which status
//   hostile --mutate count plans   as many plans, which the fuzzer's mutations make of these, without coverage
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "fuzz_plans.h"
#include "run_hostile.h"

namespace {

using Plan = std::vector<unsigned char>;

std::minstd_rand dice(1);

std::vector<Plan> read_files(char** paths, int count) {
  std::vector<Plan> found;
  for (int i = 0; i < count; ++i) {
    FILE* const file = std::fopen(paths[i], "rb");
    if (file == nullptr) std::exit(2);
    Plan& bytes = found.emplace_back();
    unsigned char piece[4096];
    for (size_t n = 0; (n = std::fread(piece, 1, sizeof piece, file)) > 0;)
      bytes.insert(bytes.end(), piece, piece + n);
    std::fclose(file);
  }
  return found;
}

void mutate(const std::vector<Plan>& plans, unsigned count) {
  std::vector<unsigned char> bytes(1 << 17);
  for (unsigned number = 0; number < count; ++number) {
    const Plan &plan = plans[dice() % plans.size()], &other = plans[dice() % plans.size()];
    size_t size = plan.size();
    if (size > bytes.size()) continue;
    if (number % 4 == 0) {
      size = LLVMFuzzerCustomCrossOver(plan.data(), size, other.data(), other.size(), bytes.data(),
                                       bytes.size(), static_cast<unsigned>(dice()));
    } else {
      std::copy(plan.begin(), plan.end(), bytes.begin());
      for (unsigned left = 1 + number % 3; left > 0; --left) {
        size = LLVMFuzzerCustomMutator(bytes.data(), size, bytes.size(), static_cast<unsigned>(dice()));
      }
    }
    LLVMFuzzerTestOneInput(bytes.data(), size);
  }
}

}  // namespace

// libFuzzer's mutation of bytes, which is not there without it.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t) {
  if (size > 0) data[dice() % size] = static_cast<uint8_t>(dice());
  return size;
}

int main(int argc, char** argv) {
  if (argc > 3 && std::strcmp(argv[1], "--mutate") == 0) {
    mutate(read_files(argv + 3, argc - 3), static_cast<unsigned>(std::atoi(argv[2])));
    return 0;
  }
  size_t counts[INTACT_DIFFERENT + 1] = {};
  const std::vector<Plan> plans = read_files(argv + 1, argc - 1);
  for (size_t i = 0; i < plans.size(); ++i) {
    const HostileResult result = run_hostile(plans[i].data(), plans[i].size());
    ++counts[result.status];
    if (result.status == INTACT_INTERNAL) std::printf("%s: %s\n", argv[i + 1], result.text.c_str());
  }
  for (size_t i = 0; i <= INTACT_DIFFERENT; ++i) std::printf("status %zu: %zu\n", i, counts[i]);
  return counts[INTACT_INTERNAL] == 0 ? 0 : 1;
}
