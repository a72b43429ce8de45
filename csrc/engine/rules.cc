#include "engine/rules.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>

#include "base/type_names.h"
#include "engine/checker.h"
#include "engine/kinds/scattered.h"
#include "engine/kinds/window.h"
#include "engine/sizes.h"
#include "steps/block_linear.h"

namespace intact::engine {
namespace {

using List = std::vector<int64_t>;
struct Texts {
  std::vector<std::string_view> items;
};
struct Dims {
  const std::vector<Dim>* items;
};
// What an expression is; names of values are sizes where a list is wanted.
using Item = std::variant<std::monostate, int64_t, double, std::string_view, List, Texts, Dims, Ref>;

// Of numbers up to kMostSize; what is beyond it stays there.
int64_t total(int64_t a, int64_t b) {
  const int64_t half = a / 2 + b / 2;
  return std::abs(half) >= kMostSize / 2 ? (half < 0 ? -kMostSize : kMostSize) : a + b;
}
int64_t times(int64_t a, int64_t b) {
  const int64_t size = product(std::abs(a), std::abs(b));
  return (a < 0) == (b < 0) ? size : -size;
}

// Evaluates expressions for one step: of a plan, or of its sizes once they are known.
class Scope {
 public:
  Scope(const PlanStep& step, const Plan& plan, const Checker* checker, const Sizes* sizes)
      : step_(step), rules_(*step.rules), plan_(plan), checker_(checker), sizes_(sizes) {}

  bool holds(int expression) { return is_true(evaluate(expression)); }
  Shape shape(int expression) {
    const List sizes = list(evaluate(expression));
    if (sizes.size() > kMostAxes) wrong("sizes of fewer axes");
    Shape made;
    for (const int64_t n : sizes) made.push(n);
    return made;
  }
  // The value that a field names.
  int value(std::string_view field) { return ref(evaluate_name(field)); }

 private:
  using Arguments = std::vector<Item>;
  struct Word {
    std::string_view name;
    Item (Scope::*call)(const Arguments&);
  };
  static const Word kWords[];

  [[noreturn]] void wrong(const std::string& want) const {
    throw Failure(sizes_ == nullptr ? INTACT_BAD_FILE : INTACT_BAD_SHAPE, step_.where() + ": want " + want);
  }

  static bool is_true(const Item& item) {
    if (const auto* n = std::get_if<int64_t>(&item)) return *n != 0;
    if (const auto* text = std::get_if<std::string_view>(&item)) return !text->empty();
    if (const auto* items = std::get_if<List>(&item)) return !items->empty();
    if (const auto* ref = std::get_if<Ref>(&item)) return ref->value != kNoValue;
    if (const auto* real = std::get_if<double>(&item)) return *real != 0;
    return !std::holds_alternative<std::monostate>(item);
  }
  int64_t integer(const Item& item) const {
    if (const auto* n = std::get_if<int64_t>(&item)) return *n;
    wrong("integers");
  }
  int ref(const Item& item) const {
    if (const auto* found = std::get_if<Ref>(&item)) return found->value;
    wrong("names of values");
  }
  List list(const Item& item) const {
    if (const auto* items = std::get_if<List>(&item)) return *items;
    const int value = ref(item);
    if (value == kNoValue) wrong("a name");
    if (sizes_ == nullptr && !plan_.is_constant(value)) wrong("sizes that a plan says");
    const Shape& shape = sizes_ != nullptr ? sizes_->of(value) : plan_.constant(value).shape;
    return {shape.begin(), shape.end()};
  }
  // Values that were left out are none.
  std::vector<int> refs(const Arguments& arguments) const {
    std::vector<int> found;
    for (const Item& item : arguments) {
      if (const auto* one = std::get_if<Ref>(&item); one != nullptr && one->value != kNoValue)
        found.push_back(one->value);
    }
    return found;
  }
  template <size_t N>
  std::array<int64_t, N> array(const Item& item) const {
    const List items = list(item);
    if (items.size() != N) wrong("as many numbers as there are axes");
    std::array<int64_t, N> found;
    std::copy_n(items.begin(), N, found.begin());
    return found;
  }
  int64_t axis(const Item& item, size_t count) const {
    const int64_t number = integer(item), axis = number < 0 ? number + static_cast<int64_t>(count) : number;
    if (axis < 0 || axis >= static_cast<int64_t>(count)) wrong("more axes");
    return axis;
  }

  Item evaluate(int place) {
    const Node& node = rules_.nodes[static_cast<size_t>(place)];
    const auto part = [&](size_t i) { return evaluate(node.parts[i]); };
    const auto number = [&](size_t i) { return integer(part(i)); };
    switch (node.op) {
      case Op::number: return node.number;
      case Op::text: return node.text;
      case Op::name: return evaluate_name(node.text);
      case Op::list: return joined(evaluate_all(node));
      case Op::star: wrong("a list around it");
      case Op::call: return call(node);
      case Op::index: {
        const List items = list(part(0));
        return items[static_cast<size_t>(axis(part(1), items.size()))];
      }
      case Op::slice: return slice(node);
      case Op::negative: return -number(0);
      case Op::plus: return total(number(0), number(1));
      case Op::minus: return total(number(0), -number(1));
      case Op::times: return times(number(0), number(1));
      case Op::over: return divided(number(0), number(1)).first;
      case Op::modulo: return divided(number(0), number(1)).second;
      case Op::power: {
        int64_t found = 1;
        for (int64_t i = number(1); i > 0; --i) found = times(found, number(0));
        return found;
      }
      case Op::less: return int64_t{real(part(0)) < real(part(1))};
      case Op::less_equal: return int64_t{real(part(0)) <= real(part(1))};
      case Op::equal: return int64_t{are_equal(part(0), part(1))};
      case Op::not_equal: return int64_t{!are_equal(part(0), part(1))};
      case Op::in: return int64_t{is_in(part(0), part(1))};
      case Op::negation: return int64_t{!holds(node.parts[0])};
      case Op::choice: return part(holds(node.parts[0]) ? 1 : 2);
      default: break;
    }
    Item last;  // as in Python, that which decides
    for (const int one : node.parts) {
      last = evaluate(one);
      if (is_true(last) == (node.op == Op::either)) break;
    }
    return last;
  }

  // Integers and reals in their order: numbers of plans are below 2^62.
  long double real(const Item& item) const {
    if (const auto* found = std::get_if<double>(&item)) return *found;
    return static_cast<long double>(integer(item));
  }
  std::pair<int64_t, int64_t> divided(int64_t a, int64_t b) const {
    if (b == 0) wrong("a divisor that is not 0");
    const int64_t rest = (a % b + b) % b;
    return {(a - rest) / b, rest};
  }
  bool are_equal(const Item& a, const Item& b) const {
    if (const auto* text = std::get_if<std::string_view>(&a)) {
      const auto* other = std::get_if<std::string_view>(&b);
      return other != nullptr && *text == *other;
    }
    const auto is_list = [](const Item& item) { return std::holds_alternative<List>(item); };
    return is_list(a) || is_list(b) ? list(a) == list(b) : real(a) == real(b);
  }
  bool is_in(const Item& item, const Item& among) const {
    if (const auto* texts = std::get_if<Texts>(&among)) {
      const auto* text = std::get_if<std::string_view>(&item);
      return text != nullptr &&
             std::find(texts->items.begin(), texts->items.end(), *text) != texts->items.end();
    }
    const List numbers = list(among);
    return std::find(numbers.begin(), numbers.end(), integer(item)) != numbers.end();
  }
  Item slice(const Node& node) {
    const List items = list(evaluate(node.parts[0]));
    const auto count = static_cast<int64_t>(items.size());
    const auto end = [&](int part, int64_t otherwise) {
      const int64_t n = part == kNoPart ? otherwise : integer(evaluate(part));
      return std::clamp<int64_t>(n < 0 ? n + count : n, 0, count);
    };
    const int64_t first = end(node.parts[1], 0), last = std::max(first, end(node.parts[2], count));
    return List(items.begin() + first, items.begin() + last);
  }

  // A term, or what a field holds.
  Item evaluate_name(std::string_view name) {
    if (const Rule* term = rules_.term(name)) return evaluate(term->expression);
    const auto found = std::find_if(step_.fields.begin(), step_.fields.end(),
                                    [&](const auto& field) { return field.first == name; });
    if (found == step_.fields.end()) wrong("a field '" + std::string(name) + "'");
    return std::visit(
        [&](const auto& held) -> Item {
          using Held = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<Held, std::string>) return std::string_view(held);
          else if constexpr (std::is_same_v<Held, std::vector<Dim>>) return Dims{&held};
          else if constexpr (std::is_same_v<Held, std::vector<Ref>>) wrong("one name");
          else return held;
        },
        found->second);
  }
  // Values of parts; one with a star stands for all that it has.
  Arguments evaluate_all(const Node& node) {
    Arguments found;
    for (const int part : node.parts) {
      const Node& one = rules_.nodes[static_cast<size_t>(part)];
      if (one.op != Op::star) {
        found.push_back(evaluate(part));
      } else if (const auto* many = names(one.parts[0])) {
        found.insert(found.end(), many->begin(), many->end());
      } else {
        for (const int64_t n : list(evaluate(one.parts[0]))) found.emplace_back(n);
      }
    }
    return found;
  }
  // The names that a field lists; nullptr for anything else.
  const std::vector<Ref>* names(int expression) const {
    const Node& node = rules_.nodes[static_cast<size_t>(expression)];
    for (const auto& [name, held] : step_.fields) {
      if (node.op == Op::name && name == node.text) return std::get_if<std::vector<Ref>>(&held);
    }
    return nullptr;
  }
  Item joined(const Arguments& items) const {
    Texts texts;
    List numbers;
    for (const Item& item : items) {
      if (const auto* text = std::get_if<std::string_view>(&item)) texts.items.push_back(*text);
      else numbers.push_back(integer(item));
    }
    return texts.items.empty() ? Item(numbers) : Item(texts);
  }

  Item call(const Node& node) {
    if (node.text == "len" && names(node.parts[0]) != nullptr)
      return static_cast<int64_t>(names(node.parts[0])->size());
    const auto* const word =
        std::find_if(kWords, kWords + word_count(), [&](const Word& w) { return w.name == node.text; });
    if (word == kWords + word_count()) wrong("a word '" + std::string(node.text) + "'");
    return (this->*word->call)(evaluate_all(node));
  }
  static size_t word_count();

  const Checker& checker() const {
    if (checker_ == nullptr) wrong("no demand of sizes");
    return *checker_;
  }
  const Sizes& sizes() const {
    if (sizes_ == nullptr) wrong("no sizes of a plan");
    return *sizes_;
  }

  // The words. A demand is refused by the checker, or true.
  Item codes(const Arguments& a) {
    for (const int value : refs(a)) checker().codes(value);
    return {};
  }
  Item floats(const Arguments& a) {
    for (const int value : refs(a)) checker().floats(value);
    return {};
  }
  Item one_dtype(const Arguments& a) {
    const std::vector<int> values = refs(a);
    for (const int value : values) checker().one_dtype(values[0], value);
    return {};
  }
  Item one_rank(const Arguments& a) {
    const std::vector<int> values = refs(a);
    for (const int value : values) checker().one_rank(values[0], value);
    return {};
  }
  Item one_grid(const Arguments& a) {
    checker().one_grid(ref(a[0]), ref(a[1]));
    return {};
  }
  Item ranks(const Arguments& a) {
    for (const int value : refs(a)) checker().that(checker().rank(value) == integer(a[0]), "another rank");
    return {};
  }
  Item types(const Arguments& a) {
    std::string wanted;
    for (const Item& item : a) {
      if (const auto* text = std::get_if<std::string_view>(&item))
        wanted += (wanted.empty() ? "" : " or ") + std::string(*text);
    }
    for (const int value : refs(a)) {
      const std::string_view dtype = dtype_of(value);
      const bool fits = std::any_of(a.begin(), a.end(), [&](const Item& item) {
        const auto* text = std::get_if<std::string_view>(&item);
        return text != nullptr && *text == dtype;
      });
      checker().that(fits, wanted.c_str());
    }
    return {};
  }
  Item per_axis(const Arguments& a) {
    for (size_t i = 2; i < a.size(); ++i) checker().per_axis(ref(a[0]), ref(a[1]), list(a[i]).size());
    return {};
  }
  Item images(const Arguments& a) {
    checker().window(ref(a[0]), ref(a[1]), array<2>(a[2]), array<2>(a[3]), array<4>(a[4]));
    return {};
  }
  Item scatters(const Arguments& a) {
    const auto reduction = std::get<std::string_view>(a[4]);
    check_scattered(checker(), ref(a[0]), ref(a[1]), ref(a[2]), ref(a[3]), std::string(reduction));
    return {};
  }
  Item rank(const Arguments& a) {
    const int value = ref(a[0]);
    return int64_t{plan_.is_tensor(value) ? plan_.tensor(value).rank() : plan_.constant(value).shape.rank};
  }
  std::string_view dtype_of(int value) const {
    if (plan_.is_constant(value)) return name_of(plan_.constant(value).type);
    const TensorRecord& tensor = plan_.tensor(value);
    return tensor.codes ? "codes" : tensor.is_string ? "string" : name_of(tensor.type);
  }
  Item dtype(const Arguments& a) { return dtype_of(ref(a[0])); }
  Item length(const Arguments& a) {
    if (const auto* dims = std::get_if<Dims>(&a[0])) return static_cast<int64_t>(dims->items->size());
    return static_cast<int64_t>(list(a[0]).size());
  }
  List numbers_of(const Arguments& a) const {
    if (a.size() == 1) return list(a[0]);
    List found;
    for (const Item& item : a) found.push_back(integer(item));
    return found;
  }
  Item smallest(const Arguments& a) {
    const List items = numbers_of(a);
    if (items.empty()) wrong("numbers");
    return *std::min_element(items.begin(), items.end());
  }
  Item largest(const Arguments& a) {
    const List items = numbers_of(a);
    if (items.empty()) wrong("numbers");
    return *std::max_element(items.begin(), items.end());
  }
  Item sum(const Arguments& a) {
    int64_t found = 0;
    for (const int64_t n : numbers_of(a)) found = total(found, n);
    return found;
  }
  Item prod(const Arguments& a) { return product(list(a[0])); }
  Item least(const Arguments& a) {
    int64_t found = kMostSize;
    if (const auto* dims = std::get_if<Dims>(&a[0])) {
      for (const Dim& dim : *dims->items) found = std::min(found, dim.text < 0 ? dim.value : kMostSize);
    } else {
      for (const int64_t n : list(a[0])) found = std::min(found, n);
    }
    return found == kMostSize ? 0 : found;
  }
  Item numbers(const Arguments& a) { return sizes().numbers(*std::get<Dims>(a[0]).items); }
  Item ceil_div(const Arguments& a) { return -divided(-integer(a[0]), integer(a[1])).first; }
  Item are_axes(const Arguments& a) {
    const List axes = list(a[0]);
    const std::set<int64_t> distinct(axes.begin(), axes.end());
    const bool within = axes.empty() || (*distinct.begin() >= 0 && *distinct.rbegin() < integer(a[1]));
    return int64_t{within && distinct.size() == axes.size()};
  }
  Item pick(const Arguments& a) {
    const List from = list(a[0]);
    List found;
    for (const int64_t n : list(a[1])) found.push_back(from[static_cast<size_t>(axis(n, from.size()))]);
    return found;
  }
  Item replace(const Arguments& a) {
    List found = list(a[0]);
    found[static_cast<size_t>(axis(a[1], found.size()))] = integer(a[2]);
    return found;
  }
  Item reduced(const Arguments& a) {
    const List from = list(a[0]), axes = list(a[1]);
    List found;
    for (size_t i = 0; i < from.size(); ++i) {
      const bool goes = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
      if (!goes || is_true(a[2])) found.push_back(goes ? 1 : from[i]);
    }
    return found;
  }
  Item supers_fit(const Arguments& a) {
    const auto supers = array<2>(a[0]), blocks = array<2>(a[1]);
    return int64_t{supers[0] == blocks[0] && supers[1] > 0 && blocks[1] % supers[1] == 0};
  }
  Item blocks_fit(const Arguments& a) {
    try {
      BlockCut(integer(a[0]), integer(a[2]), integer(a[1]));
    } catch (const std::invalid_argument&) {
      return int64_t{0};
    }
    return int64_t{1};
  }
  Item fits_in(const Arguments& a) {
    const List index = list(a[0]), from = list(a[1]);
    const auto along = static_cast<size_t>(axis(a[2], from.size()));
    bool fits = index.size() == from.size();
    for (size_t i = 0; fits && i < from.size(); ++i) fits = i == along || index[i] <= from[i];
    return int64_t{fits};
  }
  static List list_of(const Shape& shape) { return {shape.begin(), shape.end()}; }
  Item broadcast(const Arguments& a) {
    Shape made = sizes().of(ref(a[0]));
    for (const Item& item : a) made = sizes().broadcast(ref(item), made, sizes().of(ref(item)));
    return list_of(made);
  }
  Item product_of(const Arguments& a) { return list_of(sizes().product_shape(ref(a[0]), ref(a[1]))); }
  Item windows(const Arguments& a) {
    const auto found = window_positions(sizes(), ref(a[0]), array<2>(a[1]), array<2>(a[2]), array<2>(a[3]),
                                        array<4>(a[4]), a.size() > 5 && is_true(a[5]));
    return List{found[0], found[1]};
  }

  const PlanStep& step_;
  const Rules& rules_;
  const Plan& plan_;
  const Checker* checker_;
  const Sizes* sizes_;
};

const Scope::Word Scope::kWords[] = {{"blocks_fit", &Scope::blocks_fit},
                                     {"supers_fit", &Scope::supers_fit},
                                     {"are_axes", &Scope::are_axes},
                                     {"broadcast", &Scope::broadcast},
                                     {"ceil_div", &Scope::ceil_div},
                                     {"codes", &Scope::codes},
                                     {"dtype", &Scope::dtype},
                                     {"fits_in", &Scope::fits_in},
                                     {"floats", &Scope::floats},
                                     {"images", &Scope::images},
                                     {"least", &Scope::least},
                                     {"len", &Scope::length},
                                     {"max", &Scope::largest},
                                     {"min", &Scope::smallest},
                                     {"numbers", &Scope::numbers},
                                     {"one_dtype", &Scope::one_dtype},
                                     {"one_grid", &Scope::one_grid},
                                     {"one_rank", &Scope::one_rank},
                                     {"per_axis", &Scope::per_axis},
                                     {"pick", &Scope::pick},
                                     {"prod", &Scope::prod},
                                     {"product", &Scope::product_of},
                                     {"rank", &Scope::rank},
                                     {"ranks", &Scope::ranks},
                                     {"reduced", &Scope::reduced},
                                     {"replace", &Scope::replace},
                                     {"scatters", &Scope::scatters},
                                     {"sum", &Scope::sum},
                                     {"types", &Scope::types},
                                     {"windows", &Scope::windows}};

size_t Scope::word_count() { return std::size(kWords); }

}  // namespace

void check_rules(const PlanStep& step, const Checker& checker) {
  if (step.rules == nullptr) return;
  Scope scope(step, checker.plan, &checker, nullptr);
  for (const Rule& rule : step.rules->checks) {
    const bool holds = scope.holds(rule.expression);
    if (!rule.want.empty()) checker.that(holds, std::string(rule.want).c_str());
  }
}

void check_sizes(const PlanStep& step, const Sizes& sizes) {
  if (step.rules == nullptr) return;
  Scope scope(step, sizes.plan(), nullptr, &sizes);
  for (const Rule& rule : step.rules->fits) {
    if (scope.holds(rule.expression)) continue;
    const int value = scope.value(rule.subject);
    sizes.mismatch(value, "shape " + text_of(sizes.of(value)), std::string(rule.want));
  }
}

bool sizes_by_rules(const PlanStep& step, const Sizes& sizes, std::vector<Shape>& made) {
  if (step.rules == nullptr || step.rules->sizes.empty()) return false;
  Scope scope(step, sizes.plan(), nullptr, &sizes);
  for (const Rule& rule : step.rules->sizes) {
    if (scope.value(rule.subject) != kNoValue) made.push_back(scope.shape(rule.expression));
  }
  return true;
}

}  // namespace intact::engine
