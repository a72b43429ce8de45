// What a kind of step may say, and the sizes of what it makes: the text `rules` of its home in
// src/intact/engine/steps, in the language that base/rules.py there defines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/axes.h"
#include "engine/dims.h"

namespace intact::engine {

class Checker;
class PlanStep;
class Sizes;

// A name in a field: a tensor or a constant of the plan, or kNoValue.
struct Ref {
  int value;
};
// What a field holds; std::monostate: null.
using FieldValue = std::variant<std::monostate, int64_t, double, std::string, std::vector<int64_t>,
                                std::vector<Dim>, Ref, std::vector<Ref>>;
using FieldValues = std::vector<std::pair<std::string_view, FieldValue>>;

enum class Op : uint8_t {
  number,
  text,
  name,
  list,
  star,
  call,
  index,
  slice,
  negative,
  plus,
  minus,
  times,
  over,
  modulo,
  power,
  less,
  less_equal,
  equal,
  not_equal,
  in,
  all_of,
  either,
  negation,
  choice
};
// An expression and its parts. `all_of` is true where all parts are, `either` where one is. Ends of a slice
// that are left out are kNoPart.
struct Node {
  Op op;
  std::vector<int> parts;
  int64_t number = 0;
  std::string_view text;
};
constexpr int kNoPart = -1;

struct Rule {
  int expression;
  std::string_view subject, want;
};

struct Rules {
  std::vector<Rule> checks, fits, sizes, terms;  // a term's subject is its name
  std::vector<Node> nodes;

  const Rule* term(std::string_view name) const;
};

// The text of a kind's rules; "" for none.
std::string_view rules_text(std::string_view kind);
// Those of a kind, parsed once; a kind without any has none of each.
const Rules& rules_of(std::string_view kind);

// Refuses what rules do not allow. Throws Failure.
void check_rules(const PlanStep& step, const Checker& checker);
void check_sizes(const PlanStep& step, const Sizes& sizes);
// Sizes of all that a step makes; false where no rule says them.
bool sizes_by_rules(const PlanStep& step, const Sizes& sizes, std::vector<Shape>& made);

}  // namespace intact::engine
