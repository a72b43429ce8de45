#include "engine/kinds/scattered.h"

#include <algorithm>

#include "engine/binding.h"

namespace intact::engine {

void check_scattered(const Checker& checker, int x, int index, int updates, int y,
                     const std::string& reduction) {
  checker.index(index);
  checker.one_dtype(x, updates, y);
  const Codes *a = checker.grid(x), *b = checker.grid(updates), *c = checker.grid(y);
  checker.that(a == nullptr || reduction == "none", "no reduction of codes");
  if (a == nullptr) return;
  const auto alike = [&](const Codes& g) {
    return g.scale == a->scale && g.zero_point == a->zero_point && g.is_signed == a->is_signed &&
           g.offset() == a->offset();
  };
  checker.that(alike(*b) && alike(*c), "one grid");
  checker.that(c->low <= std::min(a->low, b->low) && std::max(a->high, b->high) <= c->high,
               "room for all codes");
}

int64_t count_of(const std::vector<int64_t>& sizes) {
  return product(sizes.data(), sizes.data() + sizes.size());
}

void check_tuples(Binding& binding, int index, const std::vector<int64_t>& sizes) {
  if (!binding.plan.is_constant(index)) return;
  const auto check = [&](auto values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t size = sizes[i % sizes.size()], row = values[i];
      if (row >= -size && row < size) continue;
      fail(INTACT_BAD_INDEX, "constant '" + binding.plan.name(index) + "'", "index " + std::to_string(row),
           "rows that are there");
    }
  };
  if (binding.plan.constant(index).type == Type::i64) {
    check(binding.array<int64_t>(index));
  } else {
    check(binding.array<int32_t>(index));
  }
}

}  // namespace intact::engine
