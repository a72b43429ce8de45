// Operations on elements of every type.
#include "checks.h"

namespace intact {
namespace {

template <class T>
Bytes bytes_of_values(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of_bytes(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// n elements: of integers small ones, some equal, and both ends; of floats as some_float has them.
Bytes some_elements(Type type, size_t n) {
  if (type == Type::b8) return some_bytes(n, 1);
  if (type == Type::f32) return bytes_of_values(some_floats(n, true));
  if (type == Type::f64) {
    std::vector<double> x(n);
    for (double& v : x) v = static_cast<double>(some_float(true)) * (1 + 1e-9 * pick(0, 999));
    return bytes_of_values(x);
  }
  Bytes x = some_bytes(n * bytes_of(type));
  if (type == Type::f16) return x;
  for (size_t at = 0; at < x.size(); at += bytes_of(type)) {
    const int kind = pick(0, 5), sign = pick(0, 1) == 0 ? 0 : 255;
    if (kind == 0) continue;  // any bits
    for (size_t b = 0; b < bytes_of(type); ++b) x[at + b] = static_cast<uint8_t>(sign);
    if (kind < 4) x[at] = static_cast<uint8_t>(sign ^ pick(0, 3));
    if (kind == 4) x[at + bytes_of(type) - 1] ^= 0x80;  // an end
  }
  return x;
}

bool same_elements(Type type, const Bytes& a, const Bytes& b) {
  if (type == Type::f32) return same(values_of_bytes<float>(a), values_of_bytes<float>(b));
  if (type == Type::f64) return same(values_of_bytes<double>(a), values_of_bytes<double>(b));
  return a == b;
}

}  // namespace

// Every operation on elements of some type, with operands that move or do not, to every type that it makes.
bool check(const ElementwiseOps& ops) {
  constexpr auto kLast = static_cast<int>(Type::f64);
  for (int i = 0; i <= static_cast<int>(ElementwiseOperation::logical_xor); ++i) {
    const auto operation = static_cast<ElementwiseOperation>(i);
    const auto type = static_cast<Type>(pick(0, kLast));
    const auto moves = static_cast<unsigned>(pick(0, 7));
    const size_t n = some_size();
    const bool chooses = operation == ElementwiseOperation::where;
    Bytes xs[3];
    for (int v = 0; v < 3; ++v) {
      xs[v] = some_elements(chooses && v == 0 ? Type::b8 : type, n + 1);
    }
    for (int made = 0; made <= kLast; ++made) {
      const auto to = static_cast<Type>(made);
      const ElementwiseRow row = ops.find(operation, type, to, moves);
      const ElementwiseRow plain = elementwise_ref.find(operation, type, to, moves);
      if ((row == nullptr) != (plain == nullptr)) return true;
      if (plain == nullptr) continue;
      // Which half a NaN becomes is left open.
      if (to == Type::f16 && type == Type::f32) xs[0] = bytes_of_values(some_floats(n + 1, false));
      const void* const from[] = {xs[0].data(), xs[1].data(), xs[2].data()};
      Bytes got((n + 9) * bytes_of(to), 7), want = got;
      row(from, n, got.data());
      plain(from, n, want.data());
      if (!same_elements(to, got, want)) return true;
    }
  }
  return false;
}

}  // namespace intact
