#include "engine/selftest.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <limits>

#include "engine/bound.h"
#include "engine/crc32.h"
#include "engine/failure.h"
#include "engine/fields.h"

namespace intact::engine {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 24;  // of all inputs together

uint32_t number32(int64_t number, const std::string& where) {
  if (number < 0 || number > 0xffffffff) fail_file(where, std::to_string(number), "32 bits");
  return static_cast<uint32_t>(number);
}

// A byte of SplitMix64 at this count (Steele, Lea, Flood: Fast splittable generators, 2014).
uint8_t random_byte(uint64_t count) {
  uint64_t z = (count + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<uint8_t>((z ^ (z >> 31)) >> 56);
}

template <class T>
void store(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// n / 32 for n from -128 to 127, in 16 bits.
uint16_t half_of(int n) {
  if (n == 0) return 0;
  const auto magnitude = static_cast<unsigned>(n < 0 ? -n : n);
  const int exponent = std::bit_width(magnitude) - 1;
  const unsigned fraction = (magnitude << (10 - exponent)) & 0x3ff;
  const unsigned sign = n < 0 ? 0x8000 : 0, biased = static_cast<unsigned>(exponent + 10);
  return static_cast<uint16_t>(sign | biased << 10 | fraction);
}

// Bytes for codes and truths, byte / 32 - 4 for floats. Other whole numbers may be indices, and are 0.
void draw(Type type, uint8_t byte, uint8_t* to) {
  const float real = static_cast<float>(byte - 128) / 32;  // exact in 16 bits, too
  switch (type) {
    case Type::u8:
    case Type::i8: return store(to, byte);
    case Type::b8: return store(to, static_cast<uint8_t>(byte >> 7));
    case Type::f16: return store(to, half_of(byte - 128));
    case Type::f32: return store(to, real);
    case Type::f64: return store(to, static_cast<double>(real));
    default: return;
  }
}

// Gives NaNs their usual bits: which ones they have is the processor's business.
template <class Bits, Bits kInfinity, Bits kQuiet>
void unify_nans(std::vector<uint8_t>& bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() >> 1;
    if ((bits & kMagnitude) > kInfinity) store(bytes.data() + i * sizeof bits, kQuiet);
  }
}

uint32_t checksum(Type type, std::vector<uint8_t>& bytes, size_t count) {
  if (type == Type::f16) unify_nans<uint16_t, 0x7c00, 0x7e00>(bytes, count);
  if (type == Type::f32) unify_nans<uint32_t, 0x7f800000, 0x7fc00000>(bytes, count);
  if (type == Type::f64) unify_nans<uint64_t, 0x7ff0000000000000, 0x7ff8000000000000>(bytes, count);
  return crc32(bytes.data(), count * bytes_of(type));
}

// An array, never without memory.
std::vector<uint8_t> array_of(Type type, int64_t count) {
  return std::vector<uint8_t>(static_cast<size_t>(count) * bytes_of(type) + 1);
}

std::vector<uint8_t> draw_input(Type type, const Shape& shape, uint64_t first) {
  const int64_t count = elements(shape);
  std::vector<uint8_t> bytes = array_of(type, count);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t byte = random_byte(first + static_cast<uint64_t>(i));
    draw(type, byte, bytes.data() + static_cast<size_t>(i) * bytes_of(type));
  }
  return bytes;
}

}  // namespace

SelfTest read_selftest(Fields fields) {
  SelfTest found;
  found.seed = number32(fields.integer("seed"), fields.where());
  for (const Json& sizes : fields.list("shapes").items) {
    if (!sizes.is(Json::Kind::list)) fail_file(fields.where(), text_of(sizes), "sizes of an input");
    if (sizes.items.size() > kMaxRank) {
      throw Failure(INTACT_UNSUPPORTED, fields.where() + ": got more axes than kernels walk");
    }
    Shape shape;
    for (const Json& size : sizes.items) {
      if (!size.is(Json::Kind::integer) || size.integer < 0) {
        fail_file(fields.where() + ".shapes", text_of(size), "sizes of 0 or more");
      }
      shape.push(size.integer);
    }
    found.shapes.push_back(shape);
  }
  for (const int64_t sum : fields.integers("checksums")) {
    found.checksums.push_back(number32(sum, fields.where()));
  }
  fields.finish();
  return found;
}

void check_selftest(const Plan& plan, const std::string& where) {
  const SelfTest& test = *plan.selftest;
  bool fits = test.shapes.size() == plan.inputs.size() && test.checksums.size() == plan.outputs.size();
  int64_t all = 0;
  for (size_t i = 0; fits && i < test.shapes.size(); ++i) {
    const int64_t count = elements(test.shapes[i]);
    fits = test.shapes[i].rank == plan.tensor(plan.inputs[i]).rank() && count <= kMostElements - all;
    all += fits ? count : 0;
  }
  if (!fits) {
    fail_file(where + ".selftest", "other inputs or outputs", "those of the plan, at most 2^24 elements");
  }
}

void run_selftest(OpenPlan& open) {
  const Plan& plan = open.plan;
  if (!plan.selftest) {
    throw Failure(INTACT_UNSUPPORTED, "the plan has no self-test: build it again by `intact build`");
  }
  const SelfTest& test = *plan.selftest;
  Bound bound(open.target(), test.shapes);
  bound.prepare_run();
  std::vector<std::vector<uint8_t>> inputs, outputs;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const Type type = plan.tensor(plan.inputs[i]).outer_type();
    const uint64_t first = (uint64_t{test.seed} << 32) + (uint64_t{i} << 24);
    from.push_back(inputs.emplace_back(draw_input(type, test.shapes[i], first)).data());
  }
  for (const int output : plan.outputs) {
    const Type type = plan.tensor(output).outer_type();
    to.push_back(outputs.emplace_back(array_of(type, elements(bound.shape(output)))).data());
  }
  bound.run(from.data(), to.data(), std::atomic<bool>(false));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int output = plan.outputs[i];
    const auto count = static_cast<size_t>(elements(bound.shape(output)));
    if (checksum(plan.tensor(output).outer_type(), outputs[i], count) != test.checksums[i]) {
      throw Failure(INTACT_DIFFERENT, "output '" + plan.name(output) +
                                          "': got other numbers than the machine that built the plan");
    }
  }
}

}  // namespace intact::engine
