#include "engine/json.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "engine/failure.h"

namespace intact::engine {
namespace {

constexpr int kDeepest = 512;  // as deep as an expression of sizes can be
constexpr size_t kMostValues = size_t{1} << 24;
constexpr int64_t kLargest = int64_t{1} << 62;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(std::string_view text, const std::string& where, std::deque<std::string>& texts)
      : text_(text), where_(where), texts_(texts) {}

  Json document() {
    Json found = value(0);
    skip_space();
    if (at_ != text_.size()) refuse("text behind the value");
    return found;
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    fail_file(where_, std::string(what) + " at byte " + std::to_string(at_), "JSON");
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json value(int depth) {
    if (depth > kDeepest) refuse("values that are nested too deep");
    if (++values_ > kMostValues) refuse("too many values");
    skip_space();
    Json found;
    const char c = peek();
    if (c == '{') {
      object(found, depth);
    } else if (c == '[') {
      list(found, depth);
    } else if (c == '"') {
      found.kind = Json::Kind::text;
      found.text = string();
    } else if (c == '-' || is_digit(c)) {
      number(found);
    } else if (take("true")) {
      found.kind = Json::Kind::boolean;
      found.truth = true;
    } else if (take("false")) {
      found.kind = Json::Kind::boolean;
    } else if (!take("null")) {
      refuse("no value");
    }
    return found;
  }

  void object(Json& found, int depth) {
    found.kind = Json::Kind::object;
    ++at_;
    if (take('}')) return;
    do {
      skip_space();
      if (peek() != '"') refuse("no key");
      found.keys.push_back(string());
      if (!take(':')) refuse("no colon");
      found.items.push_back(value(depth + 1));
    } while (take(','));
    if (!take('}')) refuse("an object without end");
  }

  void list(Json& found, int depth) {
    found.kind = Json::Kind::list;
    ++at_;
    if (take(']')) return;
    do {
      found.items.push_back(value(depth + 1));
    } while (take(','));
    if (!take(']')) refuse("a list without end");
  }

  void digits() {
    if (!is_digit(peek())) refuse("a number without digits");
    while (is_digit(peek())) ++at_;
  }

  void number(Json& found) {
    const size_t begin = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else {
      digits();
    }
    bool whole = true;
    if (peek() == '.') {
      whole = false;
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      whole = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    const std::string_view text = text_.substr(begin, at_ - begin);
    found.kind = whole ? Json::Kind::integer : Json::Kind::real;
    whole ? integer(found, text) : real(found, text);
  }

  void integer(Json& found, std::string_view text) const {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found.integer);
    const bool fits = error == std::errc() && found.integer > -kLargest && found.integer < kLargest;
    if (!fits || end != text.data() + text.size()) refuse("a whole number that is too large");
  }

  void real(Json& found, std::string_view text) const {
#if defined(__cpp_lib_to_chars)
    // Numbers too small for a double are 0, as everybody's readers have them.
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found.real);
    if (error == std::errc::result_out_of_range) found.real = std::strtod(std::string(text).c_str(), nullptr);
#else
    found.real = std::strtod(std::string(text).c_str(), nullptr);
#endif
    if (!std::isfinite(found.real)) refuse("a number that is too large");
  }

  std::string_view string() {
    const size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') plain();
    if (at_ >= text_.size()) refuse("a text without end");
    if (text_[at_] == '"') return text_.substr(begin, at_++ - begin);
    std::string made(text_.substr(begin, at_ - begin));
    while (true) {
      if (at_ >= text_.size()) refuse("a text without end");
      if (text_[at_] == '"') break;
      if (text_[at_] == '\\') {
        escape(made);
      } else {
        const size_t from = at_;
        plain();
        made.append(text_.substr(from, at_ - from));
      }
    }
    ++at_;
    return texts_.emplace_back(std::move(made));
  }

  // One character as it stands, in UTF-8.
  void plain() {
    const auto byte = [&](size_t i) {
      return i < text_.size() ? static_cast<uint8_t>(text_[i]) : uint8_t{0};
    };
    const uint8_t first = byte(at_);
    if (first < 0x20) refuse("a control character in a text");
    size_t more = 0;
    uint32_t code = first, least = 0;
    if (first >= 0xf0 && first < 0xf8) {
      more = 3, code = first & 7u, least = 0x10000;
    } else if (first >= 0xe0 && first < 0xf0) {
      more = 2, code = first & 15u, least = 0x800;
    } else if (first >= 0xc0 && first < 0xe0) {
      more = 1, code = first & 31u, least = 0x80;
    } else if (first >= 0x80) {
      refuse("a text that is not UTF-8");
    }
    for (size_t i = 1; i <= more; ++i) {
      if ((byte(at_ + i) & 0xc0) != 0x80) refuse("a text that is not UTF-8");
      code = code << 6 | (byte(at_ + i) & 63u);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      refuse("a text that is not UTF-8");
    at_ += 1 + more;
  }

  uint32_t four_digits() {
    uint32_t code = 0;
    const std::string_view text = text_.substr(at_, 4);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code, 16);
    if (text.size() != 4 || error != std::errc() || end != text.data() + 4)
      refuse("an escape without digits");
    at_ += 4;
    return code;
  }

  void escape(std::string& made) {
    ++at_;
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char name = peek();
    ++at_;
    if (const size_t found = kNames.find(name); name != '\0' && found != std::string_view::npos) {
      made.push_back(kMeant[found]);
      return;
    }
    if (name != 'u') refuse("an escape that there is not");
    uint32_t code = four_digits();
    if (code >= 0xd800 && code < 0xdc00 && take("\\u")) {
      const uint32_t low = four_digits();
      if (low < 0xdc00 || low > 0xdfff) refuse("half a character");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xd800 && code < 0xe000) refuse("half a character");
    append(made, code);
  }

  static void append(std::string& made, uint32_t code) {
    const auto byte = [&](uint32_t b) { made.push_back(static_cast<char>(b)); };
    if (code < 0x80) {
      byte(code);
    } else if (code < 0x800) {
      byte(0xc0 | code >> 6), byte(0x80 | (code & 63));
    } else if (code < 0x10000) {
      byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63));
    } else {
      byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 63));
      byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63));
    }
  }

  const std::string_view text_;
  const std::string& where_;
  std::deque<std::string>& texts_;
  size_t at_ = 0, values_ = 0;
};

}  // namespace

const Json* Json::find(std::string_view key) const {
  for (size_t i = keys.size(); i-- > 0;) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

JsonDocument::JsonDocument(std::string_view text, const std::string& where)
    : root_(Parser(text, where, texts_).document()) {}

std::string text_of(const Json& value) {
  switch (value.kind) {
    case Json::Kind::null: return "null";
    case Json::Kind::boolean: return value.truth ? "true" : "false";
    case Json::Kind::integer: return std::to_string(value.integer);
    case Json::Kind::real: return "a real number";
    case Json::Kind::text: return "'" + std::string(value.text.substr(0, 60)) + "'";
    case Json::Kind::list: return "a list of " + std::to_string(value.items.size());
    case Json::Kind::object: return "an object of " + std::to_string(value.items.size());
  }
  return "";
}

}  // namespace intact::engine
