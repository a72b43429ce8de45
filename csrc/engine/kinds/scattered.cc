#include "engine/kinds/scattered.h"

#include <algorithm>

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

}  // namespace intact::engine
