#include "engine/dims.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "engine/failure.h"

namespace intact::engine {
namespace {

constexpr int64_t kLargest = int64_t{1} << 62;  // as in plan files
constexpr size_t kLongest = 2000;               // characters of an expression
constexpr std::string_view kFunctions[] = {"+", "-", "*", "/", "mod", "max", "min", "broadcast"};

}  // namespace

Dim DimTable::intern(std::string_view text) {
  const auto [found, is_new] = places_.emplace(text, static_cast<int>(texts_.size()));
  const int place = found->second;
  if (!is_new) return {0, place};
  texts_.emplace_back(text);
  roots_.push_back(-1);
  if (text.size() > kLongest || text.substr(0, 2) != "=[") return {0, place};
  try {
    const JsonDocument parsed(text.substr(1), "an expression of sizes");
    roots_[static_cast<size_t>(place)] = parse(parsed.root());
  } catch (const Failure&) {
    // No expression: a name, which stands for itself.
  }
  return {0, place};
}

int DimTable::parse(const Json& value) {
  Node node;
  if (value.is(Json::Kind::list) && value.items.size() == 3 && value.items[0].is(Json::Kind::text)) {
    const auto* const named = std::find(std::begin(kFunctions), std::end(kFunctions), value.items[0].text);
    if (named == std::end(kFunctions)) fail_file("an expression", text_of(value.items[0]), "a function");
    node.function = static_cast<Function>(named - kFunctions);
    node.a = parse(value.items[1]);
    node.b = parse(value.items[2]);
  } else if (value.is(Json::Kind::text) && !value.text.empty() && value.text.front() != '=') {
    node.leaf = intern(value.text);
  } else if (value.is(Json::Kind::integer)) {
    node.leaf.value = value.integer;
  } else {
    fail_file("an expression", text_of(value), "a size");
  }
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

std::optional<int64_t> DimTable::apply(Function function, int64_t a, int64_t b) {
  switch (function) {  // both are below 2^62 in magnitude: sums fit
    case Function::plus: return a + b;
    case Function::minus: return a - b;
    case Function::times:
      if (a != 0 && std::abs(b) >= kLargest / std::abs(a) + 1) return std::nullopt;
      return a * b;
    case Function::over: return b == 0 ? std::nullopt : std::optional(a / b);
    case Function::modulo: {
      if (b == 0) return std::nullopt;
      const int64_t rest = a % b;
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case Function::most: return std::max(a, b);
    case Function::least: return std::min(a, b);
    case Function::broadcast: return b == 1 ? a : b;
  }
  return std::nullopt;
}

std::optional<int64_t> DimTable::compute(int place, const KnownDims& known) const {
  const Node& node = nodes_[static_cast<size_t>(place)];
  if (node.a < 0) {
    return node.leaf.text < 0 ? std::optional(node.leaf.value) : known[static_cast<size_t>(node.leaf.text)];
  }
  const auto a = compute(node.a, known), b = compute(node.b, known);
  if (!a || !b) return std::nullopt;
  const auto made = apply(node.function, *a, *b);
  return made && std::abs(*made) < kLargest ? made : std::nullopt;
}

std::optional<int64_t> DimTable::value_of(const Dim& dim, const KnownDims& known) const {
  if (dim.text < 0) return dim.value;
  const auto place = static_cast<size_t>(dim.text);
  if (known[place] || roots_[place] < 0) return known[place];
  return compute(roots_[place], known);
}

std::vector<int64_t> DimTable::numbers(const std::vector<Dim>& dims, const KnownDims& known) const {
  std::vector<int64_t> found;
  for (const Dim& dim : dims) {
    const auto value = value_of(dim, known);
    if (!value) fail(INTACT_BAD_SHAPE, "the size " + text(dim), "no number", "a size that inputs tell");
    found.push_back(*value);
  }
  return found;
}

int64_t DimTable::learn(const Dim& dim, int64_t size, KnownDims& known) const {
  auto& value = known[static_cast<size_t>(dim.text)];
  if (!value) value = value_of(dim, known).value_or(size);
  return *value;
}

}  // namespace intact::engine
