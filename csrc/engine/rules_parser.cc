#include <algorithm>
#include <array>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

#include "engine/rules.h"

namespace intact::engine {
namespace {

struct KindRules {
  std::string_view kind, text;
};
constexpr KindRules kRules[] = {
#include "engine/step_rules.inc"
};

bool is_word(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \r"), last = text.find_last_not_of(" \r");
  return first == text.npos ? std::string_view() : text.substr(first, last - first + 1);
}

// Reads one expression, from the loosest binding to the closest.
class Parser {
 public:
  Parser(std::string_view text, std::vector<Node>& nodes) : text_(text), nodes_(nodes) {}

  int parse() {
    const int found = choice();
    if (!peek().empty()) wrong();
    return found;
  }

 private:
  [[noreturn]] void wrong() const { throw std::logic_error("no rule of a step: " + std::string(text_)); }

  // The next token: a name or number, a text with its quotes, or a sign.
  std::string_view peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    const std::string_view rest = text_.substr(at_);
    if (rest.empty()) return rest;
    size_t size = 1;
    if (is_word(rest[0])) {
      while (size < rest.size() && is_word(rest[size])) ++size;
    } else if (rest[0] == '\'') {
      size = rest.find('\'', 1) + 1;
    } else {
      for (const char* sign : {"<=", ">=", "==", "!=", "**", "//"}) {
        if (rest.starts_with(sign)) size = 2;
      }
    }
    return rest.substr(0, size);
  }
  bool take(std::string_view token) {
    if (peek() != token) return false;
    at_ += token.size();
    return true;
  }
  void want(std::string_view token) {
    if (!take(token)) wrong();
  }
  int add(Op op, std::vector<int> parts, int64_t number = 0, std::string_view text = {}) {
    nodes_.push_back({op, std::move(parts), number, text});
    return static_cast<int>(nodes_.size()) - 1;
  }

  int choice() {
    const int found = either();
    if (!take("if")) return found;
    const int condition = either();
    want("else");
    return add(Op::choice, {condition, found, choice()});
  }
  int either() {
    std::vector<int> parts{all_of()};
    while (take("or")) parts.push_back(all_of());
    return parts.size() == 1 ? parts[0] : add(Op::either, parts);
  }
  int all_of() {
    std::vector<int> parts{negation()};
    while (take("and")) parts.push_back(negation());
    return parts.size() == 1 ? parts[0] : add(Op::all_of, parts);
  }
  int negation() { return take("not") ? add(Op::negation, {negation()}) : comparison(); }

  // a < b <= c is a < b and b <= c; what is greater is less the other way round.
  int comparison() {
    std::vector<int> links;
    int left = sum();
    const int first = left;
    while (true) {
      const bool greater = peek() == ">" || peek() == ">=";
      Op op = Op::less;
      if (take("<=") || take(">=")) op = Op::less_equal;
      else if (take("==")) op = Op::equal;
      else if (take("!=")) op = Op::not_equal;
      else if (take("in")) op = Op::in;
      else if (!take("<") && !take(">")) break;
      const int right = sum();
      links.push_back(greater ? add(op, {right, left}) : add(op, {left, right}));
      left = right;
    }
    if (links.empty()) return first;
    return links.size() == 1 ? links[0] : add(Op::all_of, links);
  }
  int sum() {
    int found = product();
    while (true) {
      if (take("+")) found = add(Op::plus, {found, product()});
      else if (take("-")) found = add(Op::minus, {found, product()});
      else return found;
    }
  }
  int product() {
    int found = sign();
    while (true) {
      if (take("*")) found = add(Op::times, {found, sign()});
      else if (take("//")) found = add(Op::over, {found, sign()});
      else if (take("%")) found = add(Op::modulo, {found, sign()});
      else return found;
    }
  }
  int sign() { return take("-") ? add(Op::negative, {sign()}) : power(); }
  int power() {
    const int found = behind();
    return take("**") ? add(Op::power, {found, sign()}) : found;
  }

  // A call, an element or a part of what stands in front.
  int behind() {
    int found = atom();
    while (true) {
      if (nodes_[static_cast<size_t>(found)].op == Op::name && take("(")) {
        const std::string_view name = nodes_[static_cast<size_t>(found)].text;
        found = add(Op::call, items(")"), 0, name);
      } else if (take("[")) {
        found = within(found);
      } else {
        return found;
      }
    }
  }
  int within(int whole) {
    const int start = peek() == ":" ? kNoPart : choice();
    if (take("]")) return add(Op::index, {whole, start});
    want(":");
    const int end = peek() == "]" ? kNoPart : choice();
    want("]");
    return add(Op::slice, {whole, start, end});
  }
  std::vector<int> items(std::string_view end) {
    std::vector<int> found;
    while (!take(end)) {
      found.push_back(take("*") ? add(Op::star, {choice()}) : choice());
      if (peek() != end) want(",");
    }
    return found;
  }
  int atom() {
    const std::string_view token = peek();
    if (token.empty()) wrong();
    at_ += token.size();
    if (token == "[") return add(Op::list, items("]"));
    if (token == "(") {
      const std::vector<int> found = items(")");
      return found.size() == 1 ? found[0] : add(Op::list, found);
    }
    if (token[0] == '\'') return add(Op::text, {}, 0, token.substr(1, token.size() - 2));
    if (!is_word(token[0])) wrong();
    if (token[0] > '9') return add(Op::name, {}, 0, token);
    int64_t number = 0;
    for (const char c : token) number = 10 * number + (c - '0');
    return add(Op::number, {}, number);
  }

  const std::string_view text_;
  std::vector<Node>& nodes_;
  size_t at_ = 0;
};

// A line: a check, "fits NAME: ...", "sizes NAME: ..." or "NAME = ...", and what is wanted behind " | ".
void parse_line(std::string_view line, Rules& rules) {
  const size_t bar = line.find(" | ");
  const std::string_view want = bar == line.npos ? std::string_view() : line.substr(bar + 3);
  std::string_view text = line.substr(0, bar), subject;
  std::vector<Rule>* list = &rules.checks;
  const size_t word = static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_word) - text.begin());
  if (text.substr(word).starts_with(" = ")) {
    list = &rules.terms;
    subject = text.substr(0, word);
    text = text.substr(word + 3);
  } else if (text.starts_with("fits ") || text.starts_with("sizes ")) {
    list = text[0] == 'f' ? &rules.fits : &rules.sizes;
    const size_t colon = text.find(": ");
    subject = text.substr(word + 1, colon - word - 1);
    text = text.substr(colon + 2);
  }
  list->push_back({Parser(text, rules.nodes).parse(), subject, want});
}

Rules parse_rules(std::string_view text) {
  Rules rules;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (const std::string_view line = trimmed(text.substr(0, end)); !line.empty()) parse_line(line, rules);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return rules;
}

}  // namespace

const Rule* Rules::term(std::string_view name) const {
  for (const Rule& rule : terms) {
    if (rule.subject == name) return &rule;
  }
  return nullptr;
}

std::string_view rules_text(std::string_view kind) {
  for (const KindRules& rules : kRules) {
    if (rules.kind == kind) return rules.text;
  }
  return {};
}

const Rules& rules_of(std::string_view kind) {
  static std::mutex mutex;
  static std::unordered_map<std::string, Rules> parsed;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = parsed.try_emplace(std::string(kind));
  if (is_new) entry->second = parse_rules(rules_text(kind));
  return entry->second;
}

}  // namespace intact::engine
