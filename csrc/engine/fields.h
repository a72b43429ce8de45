// One record of a plan file, read field by field: exactly the declared fields, each of its type, and every
// name that of a value that there is.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/json.h"
#include "engine/rules.h"
#include "engine/tensor.h"

namespace intact::engine {

// Numbers of the values of a plan, by name, and its sizes.
struct ValueNames {
  std::unordered_map<std::string, int> numbers;
  DimTable& dims;
};

enum class Role : uint8_t { read, operand, write, constant };

// A name and what it is, with what is demanded of a constant.
struct Named {
  int value;
  Role role;
  Type type;
  int rank;
};

class Fields {
 public:
  Fields(const Json& object, std::string where, const ValueNames* names = nullptr);

  std::string text(std::string_view key);
  bool truth(std::string_view key);
  int64_t integer(std::string_view key);
  double real(std::string_view key);
  std::optional<int64_t> integer_or_none(std::string_view key);
  std::optional<double> real_or_none(std::string_view key);
  // A text that is one of these.
  std::string one_of(std::string_view key, std::span<const char* const> options);
  std::string one_of(std::string_view key, std::initializer_list<const char*> options) {
    return one_of(key, std::span(options.begin(), options.size()));
  }
  std::vector<std::string> texts(std::string_view key);
  std::vector<int64_t> integers(std::string_view key);
  std::vector<bool> truths(std::string_view key);
  template <size_t N>
  std::array<int64_t, N> integers_of(std::string_view key) {
    const auto found = of_list<N>(item(key), key);
    keep(key, std::vector(found.begin(), found.end()));
    return found;
  }
  template <size_t N>
  std::optional<std::array<int64_t, N>> integers_or_none(std::string_view key) {
    const Json& value = item(key);
    if (value.is(Json::Kind::null)) return keep(key, {}), std::nullopt;
    const auto found = of_list<N>(value, key);
    keep(key, std::vector(found.begin(), found.end()));
    return found;
  }
  std::array<int64_t, 2> pair(std::string_view key) { return integers_of<2>(key); }
  // The names that `many` found values for.
  std::vector<std::string> names(std::string_view key) const;
  // A size, as `value` says it.
  Dim dim(const Json& value) const;
  std::vector<Dim> dims(std::string_view key);
  // A list of pairs, one behind the other.
  std::vector<Dim> dim_pairs(std::string_view key);
  // The object or list itself.
  const Json& item(std::string_view key);
  const Json& list(std::string_view key);
  Fields record(std::string_view key);

  // Names of values; `optional`: "" is none.
  int reads(std::string_view key, bool optional = false) {
    return one(key, Role::read, optional, Type::u8, 0);
  }
  int operand(std::string_view key, bool optional = false) {
    return one(key, Role::operand, optional, Type::u8, 0);
  }
  int writes(std::string_view key, bool optional = false) {
    return one(key, Role::write, optional, Type::u8, 0);
  }
  int constant(std::string_view key, Type type, int rank, bool optional = false) {
    return one(key, Role::constant, optional, type, rank);
  }
  std::vector<int> many(std::string_view key, Role role, Type type = Type::u8, int rank = 0);

  // Whether there is such a field: older files lack some.
  bool has(std::string_view key) const;
  // Refuses fields that nobody asked for. Whoever reads a record calls it last.
  void finish() const;
  // Takes over the names that a record within this one has.
  void absorb(Fields& part);

  const std::string& where() const { return where_; }
  const std::vector<Named>& named() const { return named_; }
  // What was read so far, by the keys that were asked for, which outlive it.
  FieldValues take_values() { return std::move(values_); }

 private:
  void keep(std::string_view key, FieldValue value) { values_.emplace_back(key, std::move(value)); }
  [[noreturn]] void refuse(std::string_view key, const Json& value, const char* want) const;
  int one(std::string_view key, Role role, bool optional, Type type, int rank);
  int named_value(std::string_view key, const Json& value, Role role, bool optional, Type type, int rank);
  template <size_t N>
  std::array<int64_t, N> of_list(const Json& value, std::string_view key) const {
    if (!value.is(Json::Kind::list) || value.items.size() != N)
      refuse(key, value, "as many numbers as there are");
    std::array<int64_t, N> found;
    for (size_t i = 0; i < N; ++i) {
      if (!value.items[i].is(Json::Kind::integer)) refuse(key, value.items[i], "an integer");
      found[i] = value.items[i].integer;
    }
    return found;
  }

  const Json& object_;
  const std::string where_;
  const ValueNames* const names_;
  size_t taken_ = 0, next_ = 0;
  std::vector<Named> named_;
  FieldValues values_;
};

}  // namespace intact::engine
