#include "steps/top_k.h"

#include <algorithm>

#include "steps/lines.h"
#include "steps/walk.h"

namespace intact {
namespace {

constexpr size_t kPiece = 4096;  // elements of a piece of work

template <class T>
struct Element {
  T value;
  int64_t place;
};

// A total order, so that any way of sorting finds the same elements.
template <class T, bool kLargest>
bool before(const Element<T>& a, const Element<T>& b) {
  const bool a_none = a.value != a.value, b_none = b.value != b.value;
  if (a_none != b_none) return a_none;
  if (!a_none && a.value != b.value) return kLargest ? a.value > b.value : a.value < b.value;
  return a.place < b.place;
}

template <class T>
class TopK final : public Step {
 public:
  explicit TopK(const TopKSpec& s)
      : s_(s),
        from_(line_of(s.x, s.axis)),
        to_(line_of(s.y, s.axis)),
        places_(line_of(s.places, s.axis)),
        walk_({beginnings(s.x, s.axis), beginnings(s.y, s.axis), beginnings(s.places, s.axis)}) {
    demand(s.x.type == s.y.type, "x and y have one type");
    demand(s.places.type == Type::i64, "places are int64");
    for (const View* v : {&s.x, &s.y, &s.places}) elements_of(*v);
    demand(to_.size == places_.size && to_.size <= from_.size, "there are not as many elements");
    demand(static_cast<uint64_t>(from_.size) < SIZE_MAX / sizeof(Element<T>) / 2, "a line is too long");
    lines_ = to_.size == 0 ? 0 : walk_.outer(walk_.rank);
    each_ = std::max<size_t>(1, kPiece / static_cast<size_t>(std::max<int64_t>(1, from_.size)));
    reads(s.x);
    writes(s.y);
    writes(s.places);
  }

  std::string name() const override { return "top_k"; }
  size_t items() const override { return (lines_ + each_ - 1) / each_; }
  size_t scratch() const override { return align64(static_cast<size_t>(from_.size) * sizeof(Element<T>)); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    auto* const elements = reinterpret_cast<Element<T>*>(scratch);
    const size_t last = std::min(end * each_, lines_);
    Cursor<3> cursor(walk_, walk_.rank, begin * each_);
    for (size_t line = begin * each_; line < last; ++line, cursor.next()) {
      const uint8_t* const x = s_.x.at<uint8_t>(memory) + cursor.offset(0);
      for (int64_t i = 0; i < from_.size; ++i) elements[i] = {load<T>(x + i * from_.stride), i};
      const auto less = s_.largest ? before<T, true> : before<T, false>;
      std::partial_sort(elements, elements + to_.size, elements + from_.size, less);
      uint8_t* const y = s_.y.at<uint8_t>(memory) + cursor.offset(1);
      uint8_t* const places = s_.places.at<uint8_t>(memory) + cursor.offset(2);
      for (int64_t i = 0; i < to_.size; ++i) {
        store(y + i * to_.stride, elements[i].value);
        store(places + i * places_.stride, elements[i].place);
      }
    }
  }

 private:
  TopKSpec s_;
  Line from_, to_, places_;
  Walk<3> walk_;
  size_t lines_, each_;
};

}  // namespace

std::unique_ptr<Step> make_top_k(const TopKSpec& s) {
  switch (s.x.type) {
    case Type::f32: return std::make_unique<TopK<float>>(s);
    case Type::i32: return std::make_unique<TopK<int32_t>>(s);
    case Type::i64: return std::make_unique<TopK<int64_t>>(s);
    case Type::u8: return std::make_unique<TopK<uint8_t>>(s);
    case Type::i8: return std::make_unique<TopK<int8_t>>(s);
    default: refuse("elements are float32, int32, int64, uint8 or int8");
  }
}

}  // namespace intact
