// Sizes as a plan says them: numbers, names of free sizes, and expressions of these (docs/plan-format.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/json.h"

namespace intact::engine {

// A number; or an entry of a table of texts.
struct Dim {
  int64_t value = 0;
  int text = -1;  // -1: a number
};

// What free sizes turned out to be, by their place in the table.
using KnownDims = std::vector<std::optional<int64_t>>;

// The names and expressions of a plan, each once.
class DimTable {
 public:
  // A text that is no expression is a name.
  Dim intern(std::string_view text);
  // A size in numbers; nothing where a name in it is not known, or it is beyond any tensor's.
  std::optional<int64_t> value_of(const Dim& dim, const KnownDims& known) const;
  // The same of several. Throws Failure where nobody knows one.
  std::vector<int64_t> numbers(const std::vector<Dim>& dims, const KnownDims& known) const;
  // What a named size is: as known, or as the known ones tell, or else `size`. It is known then.
  int64_t learn(const Dim& dim, int64_t size, KnownDims& known) const;
  size_t size() const { return texts_.size(); }
  const std::string& text(const Dim& dim) const { return texts_[static_cast<size_t>(dim.text)]; }

 private:
  enum class Function : uint8_t { plus, minus, times, over, modulo, most, least, broadcast };
  // Number, text, or a function of two nodes.
  struct Node {
    Dim leaf;
    int a = -1, b = -1;  // -1: a leaf
    Function function = Function::plus;
  };

  int parse(const Json& value);
  std::optional<int64_t> compute(int node, const KnownDims& known) const;
  static std::optional<int64_t> apply(Function function, int64_t a, int64_t b);

  std::vector<std::string> texts_;
  std::vector<int> roots_;  // of each text the node of its expression; -1: a name
  std::vector<Node> nodes_;
  std::unordered_map<std::string, int> places_;
};

}  // namespace intact::engine
