// A strict reader of JSON (RFC 8259) for texts that strangers wrote: depth, size and number of values are
// bounded, and nothing is read beyond the text. Whole numbers and reals stay apart, as plan files mean them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace intact::engine {

struct Json {
  enum class Kind : uint8_t { null, boolean, integer, real, text, list, object };

  Kind kind = Kind::null;
  bool truth = false;
  int64_t integer = 0;  // below 2^62 in magnitude
  double real = 0;      // finite
  std::string_view text;
  std::vector<Json> items;              // of a list, or the values of an object
  std::vector<std::string_view> keys;  // of an object, one for each item

  bool is(Kind k) const { return kind == k; }
  // The value of the last such key; nullptr where there is none.
  const Json* find(std::string_view key) const;
};

// A value and the memory of its texts. The document's own text must outlive it.
class JsonDocument {
 public:
  // Throws Failure (INTACT_BAD_FILE), which names `where`.
  JsonDocument(std::string_view text, const std::string& where);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;
  const Json& root() const { return root_; }

 private:
  std::deque<std::string> texts_;  // that had escapes
  Json root_;
};

// A value in words, for errors.
std::string text_of(const Json& value);

}  // namespace intact::engine
