#include "engine/fields.h"

#include <algorithm>

#include "engine/failure.h"
#include "engine/plan_step.h"

namespace intact::engine {

Fields::Fields(const Json& object, std::string where, const ValueNames* names)
    : object_(object), where_(std::move(where)), names_(names) {
  if (!object.is(Json::Kind::object)) fail_file(where_, text_of(object), "an object");
}

void Fields::refuse(std::string_view key, const Json& value, const char* want) const {
  fail_file(where_ + "." + std::string(key), text_of(value), want);
}

const Json& Fields::item(std::string_view key) {
  // Writers keep the order of the fields: the next one is nearly always it.
  size_t at = next_;
  if (at >= object_.keys.size() || object_.keys[at] != key) {
    const auto found = std::find(object_.keys.begin(), object_.keys.end(), key);
    if (found == object_.keys.end()) fail_file(where_, "no field '" + std::string(key) + "'", "one");
    at = static_cast<size_t>(found - object_.keys.begin());
  }
  next_ = at + 1;
  ++taken_;
  return object_.items[at];
}

bool Fields::has(std::string_view key) const {
  return std::find(object_.keys.begin(), object_.keys.end(), key) != object_.keys.end();
}

void Fields::finish() const {
  if (taken_ != object_.keys.size()) {
    fail_file(where_, std::to_string(object_.keys.size()) + " fields", std::to_string(taken_));
  }
}

void Fields::absorb(Fields& part) {
  part.finish();
  named_.insert(named_.end(), part.named_.begin(), part.named_.end());
}

std::string Fields::text(std::string_view key) {
  const Json& value = item(key);
  if (!value.is(Json::Kind::text)) refuse(key, value, "text");
  keep(key, std::string(value.text));
  return std::string(value.text);
}

bool Fields::truth(std::string_view key) {
  const Json& value = item(key);
  if (!value.is(Json::Kind::boolean)) refuse(key, value, "true or false");
  keep(key, int64_t{value.truth});
  return value.truth;
}

int64_t Fields::integer(std::string_view key) {
  const Json& value = item(key);
  if (!value.is(Json::Kind::integer)) refuse(key, value, "an integer");
  keep(key, value.integer);
  return value.integer;
}

double Fields::real(std::string_view key) {
  const Json& value = item(key);
  if (!value.is(Json::Kind::real)) refuse(key, value, "a finite number with a decimal point");
  keep(key, value.real);
  return value.real;
}

std::optional<int64_t> Fields::integer_or_none(std::string_view key) {
  const Json& value = item(key);
  if (value.is(Json::Kind::null)) return keep(key, {}), std::nullopt;
  if (!value.is(Json::Kind::integer)) refuse(key, value, "an integer");
  keep(key, value.integer);
  return value.integer;
}

std::optional<double> Fields::real_or_none(std::string_view key) {
  const Json& value = item(key);
  if (value.is(Json::Kind::null)) return keep(key, {}), std::nullopt;
  if (!value.is(Json::Kind::real)) refuse(key, value, "a finite number with a decimal point");
  keep(key, value.real);
  return value.real;
}

std::string Fields::one_of(std::string_view key, std::span<const char* const> options) {
  const Json& value = item(key);
  const bool known =
      value.is(Json::Kind::text) &&
      std::any_of(options.begin(), options.end(), [&](const char* o) { return value.text == o; });
  if (!known) refuse(key, value, "a word that this field knows");
  keep(key, std::string(value.text));
  return std::string(value.text);
}

const Json& Fields::list(std::string_view key) {
  const Json& value = item(key);
  if (!value.is(Json::Kind::list)) refuse(key, value, "a list");
  return value;
}

std::vector<std::string> Fields::texts(std::string_view key) {
  std::vector<std::string> found;
  for (const Json& value : list(key).items) {
    if (!value.is(Json::Kind::text)) refuse(key, value, "text");
    found.emplace_back(value.text);
  }
  return found;
}

std::vector<int64_t> Fields::integers(std::string_view key) {
  std::vector<int64_t> found;
  for (const Json& value : list(key).items) {
    if (!value.is(Json::Kind::integer)) refuse(key, value, "an integer");
    found.push_back(value.integer);
  }
  keep(key, found);
  return found;
}

std::vector<bool> Fields::truths(std::string_view key) {
  std::vector<bool> found;
  for (const Json& value : list(key).items) {
    if (!value.is(Json::Kind::boolean)) refuse(key, value, "true or false");
    found.push_back(value.truth);
  }
  keep(key, std::vector<int64_t>(found.begin(), found.end()));
  return found;
}

std::vector<std::string> Fields::names(std::string_view key) const {
  std::vector<std::string> found;
  for (const Json& value : object_.find(key)->items) found.emplace_back(value.text);
  return found;
}

Dim Fields::dim(const Json& value) const {
  if (value.is(Json::Kind::integer)) return {value.integer, -1};
  if (!value.is(Json::Kind::text) || value.text.empty()) fail_file(where_, text_of(value), "sizes and names");
  return names_->dims.intern(value.text);
}

std::vector<Dim> Fields::dims(std::string_view key) {
  std::vector<Dim> found;
  for (const Json& value : list(key).items) found.push_back(dim(value));
  keep(key, found);
  return found;
}

std::vector<Dim> Fields::dim_pairs(std::string_view key) {
  std::vector<Dim> found;
  for (const Json& pair : list(key).items) {
    if (!pair.is(Json::Kind::list) || pair.items.size() != 2) refuse(key, pair, "a pair of sizes");
    for (const Json& value : pair.items) found.push_back(dim(value));
  }
  return found;
}

Fields Fields::record(std::string_view key) {
  const Json& value = item(key);
  return {value, where_ + "." + std::string(key), names_};
}

int Fields::named_value(std::string_view key, const Json& value, Role role, bool optional, Type type,
                        int rank) {
  if (!value.is(Json::Kind::text)) refuse(key, value, "text");
  if (value.text.empty()) {
    if (!optional) refuse(key, value, "a name");
    return kNoValue;
  }
  const auto found = names_->numbers.find(std::string(value.text));
  if (found == names_->numbers.end()) refuse(key, value, "a tensor or a constant of the plan");
  named_.push_back({found->second, role, type, rank});
  return found->second;
}

int Fields::one(std::string_view key, Role role, bool optional, Type type, int rank) {
  const int found = named_value(key, item(key), role, optional, type, rank);
  keep(key, Ref{found});
  return found;
}

std::vector<int> Fields::many(std::string_view key, Role role, Type type, int rank) {
  std::vector<int> found;
  for (const Json& value : list(key).items) found.push_back(named_value(key, value, role, false, type, rank));
  std::vector<Ref> refs;
  for (const int value : found) refs.push_back({value});
  keep(key, std::move(refs));
  return found;
}

}  // namespace intact::engine
