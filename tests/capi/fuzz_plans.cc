// Coverage-guided fuzzing of what reads, binds and runs plans (libFuzzer): `make fuzz-plans`. Mutations are those
// of the plan's JSON and of its arrays, with right checksums, so that they reach beyond the reader.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "fuzz_plans.h"
#include "plan_file.h"
#include "run_hostile.h"

namespace {

using intact::engine::Json;

constexpr int64_t kIntegers[] = {-1,
                                 0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 7,
                                 8,
                                 16,
                                 63,
                                 64,
                                 65,
                                 127,
                                 128,
                                 255,
                                 256,
                                 4095,
                                 65535,
                                 1 << 24,
                                 2147483647,
                                 -2,
                                 -7,
                                 -128,
                                 -32768,
                                 1000,
                                 1 << 20,
                                 int64_t{1} << 31,
                                 int64_t{1} << 32,
                                 int64_t{1} << 40,
                                 int64_t{1} << 53,
                                 int64_t{1} << 61,
                                 -(int64_t{1} << 61)};
constexpr double kReals[] = {0,    -0.0,   1,     -1,     0.5, 1e-45, 1e-38,
                             1e38, 3.4e38, 1e308, 5e-324, 255, 1e-3,  2147483648.0};
constexpr const char* kTexts[] = {"",     "x",    "codes",   "float32", "int64",
                                  "int8", "bool", "float16", "relu",    "\xff"};

class Mutator {
 public:
  Mutator(PlanFile& file, unsigned seed) : file_(file), dice_(seed) {}

  void mutate(const Json* donor) {
    for (size_t left = 1 + below(4) * below(2); left > 0; --left) {
      if (!file_.arrays.empty() && below(8) == 0) {
        change_array(file_.arrays[below(file_.arrays.size())].second);
      } else {
        change_value(donor);
      }
    }
    if (below(2) == 0) resize_arrays(file_);
  }

 private:
  size_t below(size_t n) { return dice_() % std::max<size_t>(n, 1); }
  template <class T, size_t N>
  const T& pick(const T (&values)[N]) {
    return values[below(N)];
  }

  static void collect(Json& value, std::vector<Json*>& found) {
    found.push_back(&value);
    for (Json& item : value.items) collect(item, found);
  }
  static std::vector<Json*> values_of(Json& root) {
    std::vector<Json*> found;
    collect(root, found);
    return found;
  }
  // Steps are changed as often as all else, which most values belong to in plans of many tensors.
  Json& pick_value() {
    const Json* const steps = file_.plan.find("steps");
    const bool within = steps != nullptr && !steps->items.empty() && below(2) == 0;
    const std::vector<Json*> values =
        values_of(within ? const_cast<Json*>(steps)->items[below(steps->items.size())] : file_.plan);
    return *values[below(values.size())];
  }
  // Another value of the same kind, of this plan or of the donor.
  const Json* pick_alike(const Json& value, const Json* donor) {
    Json& root = donor != nullptr && below(2) == 0 ? const_cast<Json&>(*donor) : file_.plan;
    std::vector<Json*> values = values_of(root);
    std::erase_if(values, [&](const Json* other) { return other->kind != value.kind || other == &value; });
    return values.empty() ? nullptr : values[below(values.size())];
  }

  void replace(Json& value, const Json* by) {
    if (by == nullptr) return;
    Json copy = *by;  // which may be a part of what it replaces
    keep_texts(copy);
    value = std::move(copy);
  }
  void keep_texts(Json& value) {
    if (value.is(Json::Kind::text)) value.text = file_.keep(std::string(value.text));
    for (auto& key : value.keys) key = file_.keep(std::string(key));
    for (Json& item : value.items) keep_texts(item);
  }

  void change_value(const Json* donor) {
    Json& value = pick_value();
    if (below(4) == 0) return replace(value, pick_alike(value, donor));
    if (below(16) == 0) return replace(value, &pick_value());
    switch (value.kind) {
      case Json::Kind::null: value.kind = below(2) == 0 ? Json::Kind::integer : Json::Kind::list; return;
      case Json::Kind::boolean: value.truth = !value.truth; return;
      case Json::Kind::integer: return change_integer(value.integer);
      case Json::Kind::real: return change_real(value.real);
      case Json::Kind::text: value.text = pick(kTexts); return;
      case Json::Kind::list: return change_list(value);
      case Json::Kind::object: return change_object(value);
    }
  }

  void change_integer(int64_t& value) {
    constexpr int64_t kLargest = int64_t{1} << 60;
    switch (below(6)) {
      case 0: value = value < kLargest ? value + 1 : 0; return;
      case 1: value = value > -kLargest ? value - 1 : 0; return;
      case 2: value = -value; return;
      case 3: value = std::abs(value) < kLargest ? 2 * value : 2; return;
      default: value = pick(kIntegers);
    }
  }
  void change_real(double& value) {
    switch (below(4)) {
      case 0: value = -value; return;
      case 1: value /= 2; return;
      case 2: value = std::abs(value) < 1e300 ? 2 * value : 1; return;
      default: value = pick(kReals);
    }
  }

  void change_list(Json& list) {
    auto& items = list.items;
    if (items.empty()) {
      items.emplace_back();
      return replace(items[0], &pick_value());
    }
    const size_t at = below(items.size()), other = below(items.size());
    const auto place = items.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(5)) {
      case 0: items.erase(place); return;
      case 1: {
        Json copy = items[other];
        items.insert(place, std::move(copy));
        return;
      }
      case 2: std::swap(items[at], items[other]); return;
      case 3: items.resize(at); return;
      default: std::reverse(items.begin(), items.end());
    }
  }
  void change_object(Json& object) {
    if (object.items.empty()) return;
    const size_t at = below(object.items.size()), other = below(object.items.size());
    const auto place = static_cast<std::ptrdiff_t>(at);
    switch (below(4)) {
      case 0:
        object.items.erase(object.items.begin() + place);
        object.keys.erase(object.keys.begin() + place);
        return;
      case 1: object.keys[at] = file_.keep(pick(kTexts)); return;
      default: std::swap(object.items[at], object.items[other]);
    }
  }

  void change_array(std::vector<uint8_t>& array) {
    if (array.size() <= 64) return;
    const size_t bytes = array.size() - 64;  // the padding stays
    if (below(2) == 0) {
      LLVMFuzzerMutate(array.data(), bytes, bytes);
      return;
    }
    constexpr uint32_t kWords[] = {0,          0x80000000, 0x7f800000, 0xff800000,
                                   0x7fc00000, 0xffffffff, 0x7f7fffff, 1};
    const uint32_t word = pick(kWords);
    const size_t at = below(bytes / 4 + 1) * 4;
    if (at + 4 <= array.size()) std::memcpy(array.data() + at, &word, 4);
  }

  PlanFile& file_;
  std::minstd_rand dice_;
};

size_t write_mutated(PlanFile& file, const Json* donor, uint8_t* to, size_t most, unsigned seed) {
  Mutator(file, seed).mutate(donor);
  const std::string bytes = write_plan_file(file);
  if (bytes.size() > most) return 0;
  std::memcpy(to, bytes.data(), bytes.size());
  return bytes.size();
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  auto file = read_plan_file(data, size);
  if (!file || seed % 64 == 0) return LLVMFuzzerMutate(data, size, most);
  const size_t written = write_mutated(*file, nullptr, data, most, seed);
  return written > 0 ? written : size;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data, size_t size, const uint8_t* other,
                                            size_t other_size, uint8_t* to, size_t most, unsigned seed) {
  auto file = read_plan_file(data, size);
  const auto donor = read_plan_file(other, other_size);
  return file && donor ? write_mutated(*file, &donor->plan, to, most, seed) : 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const HostileResult result = run_hostile(data, size);
  if (result.status == INTACT_INTERNAL) {
    std::fprintf(stderr, "an internal fault: %s\n", result.text.c_str());
    std::abort();
  }
  return 0;
}
