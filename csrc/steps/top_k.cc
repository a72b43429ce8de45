#include "steps/top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <utility>

#include "base/tuning.h"
#include "steps/common/lines.h"
#include "steps/common/walk.h"

namespace intact {
namespace {

using namespace tuning::indexing;

// A key whose order is that of the result: greater keys come first. A NaN has the greatest, both zeros have
// the same.
template <class T>
auto key_of(T value, bool largest) {
  using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  Key key;
  if constexpr (std::is_floating_point_v<T>) {
    if (value != value) return std::numeric_limits<Key>::max();
    const T sum = value + T{0};
    std::memcpy(&key, &sum, sizeof key);
    key = (key & kSign) != 0 ? ~key : key | kSign;
  } else {
    key = static_cast<Key>(static_cast<std::conditional_t<sizeof(T) == 8, int64_t, int32_t>>(value)) ^ kSign;
  }
  return largest ? key : static_cast<Key>(~key);
}

// Key and index as one number, in which a lower index is greater. No two entries are equal, so that every
// sorting algorithm gives the same order.
struct Narrow {
  static constexpr int kDigits = 8;
  uint64_t both;
  Narrow() = default;
  Narrow(uint32_t key, uint32_t place) : both(uint64_t{key} << 32 | static_cast<uint32_t>(~place)) {}
  uint32_t place() const { return ~static_cast<uint32_t>(both); }
  uint8_t digit(int at) const { return static_cast<uint8_t>(both >> (8 * at)); }
  friend bool operator>(Narrow a, Narrow b) { return a.both > b.both; }
};

struct Wide {
  static constexpr int kDigits = 12;
  uint64_t key;
  uint32_t complement;  // of the index
  Wide() = default;
  Wide(uint64_t key_, uint32_t place) : key(key_), complement(~place) {}
  uint32_t place() const { return ~complement; }
  uint8_t digit(int at) const {
    return static_cast<uint8_t>(at < 4 ? complement >> (8 * at) : key >> (8 * at - 32));
  }
  friend bool operator>(const Wide& a, const Wide& b) {
    return a.key != b.key ? a.key > b.key : a.complement > b.complement;
  }
};

// Radix sort of n entries, the greatest first, between two buffers. Digits that all entries share are
// skipped.
template <class Entry>
void sort_by_digits(Entry* entries, Entry* other, size_t n) {
  std::array<std::array<uint32_t, 256>, Entry::kDigits> counts{};
  for (size_t i = 0; i < n; ++i) {
    for (int at = 0; at < Entry::kDigits; ++at) ++counts[static_cast<size_t>(at)][entries[i].digit(at)];
  }
  Entry *from = entries, *to = other;
  for (int at = 0; at < Entry::kDigits; ++at) {
    auto& count = counts[static_cast<size_t>(at)];
    if (count[from[0].digit(at)] == n) continue;
    uint32_t before = 0;
    for (size_t digit = 256; digit-- > 0;) before += std::exchange(count[digit], before);
    for (size_t i = 0; i < n; ++i) to[count[from[i].digit(at)]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) std::copy_n(from, n, entries);
}

// What does not depend on the type of elements.
class TopKLines : public Step {
 public:
  explicit TopKLines(const TopKSpec& s)
      : s_(s),
        from_(line_of(s.x, s.axis)),
        to_(line_of(s.y, s.axis)),
        places_(line_of(s.places, s.axis)),
        walk_({beginnings(s.x, s.axis), beginnings(s.y, s.axis), beginnings(s.places, s.axis)}) {
    demand(s.x.type == s.y.type, "x and y have one type");
    demand(s.places.type == Type::i64, "places are int64");
    for (const View* v : {&s.x, &s.y, &s.places}) elements_of(*v);
    demand(to_.size == places_.size && to_.size <= from_.size, "there are not as many elements");
    demand(from_.size < std::numeric_limits<uint32_t>::max(), "a line is too long");
    n_ = static_cast<size_t>(from_.size);
    k_ = static_cast<size_t>(to_.size);
    room_ = k_ <= kFew ? k_ + 1 : std::min(n_, k_ + std::max(k_, kShort));
    lines_ = k_ == 0 ? 0 : walk_.outer(walk_.rank);
    each_ = std::max<size_t>(1, kPiece / std::max<size_t>(1, n_));
    reads(s.x);
    writes(s.y);
    writes(s.places);
  }

  std::string name() const override { return "top_k"; }
  size_t items() const override { return (lines_ + each_ - 1) / each_; }

 protected:
  TopKSpec s_;
  Line from_, to_, places_;
  Walk<3> walk_;
  size_t n_, k_, room_, lines_, each_;
};

template <class T>
class TopK final : public TopKLines {
  using Entry = std::conditional_t<sizeof(T) == 8, Wide, Narrow>;

 public:
  using TopKLines::TopKLines;

  size_t scratch() const override { return line_bytes() + align64((room_ + k_) * sizeof(Entry)); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    auto* const entries = reinterpret_cast<Entry*>(scratch + line_bytes());
    const size_t last = std::min(end * each_, lines_);
    Cursor<3> cursor(walk_, walk_.rank, begin * each_);
    for (size_t line = begin * each_; line < last; ++line, cursor.next()) {
      const uint8_t* x = s_.x.at<uint8_t>(memory) + cursor.offset(0);
      if (!dense()) x = gather_line(x, scratch);
      k_ <= kFew ? keep_few(x, entries) : select(x, entries);
      uint8_t* const y = s_.y.at<uint8_t>(memory) + cursor.offset(1);
      uint8_t* const places = s_.places.at<uint8_t>(memory) + cursor.offset(2);
      for (size_t i = 0; i < k_; ++i) {
        const auto at = static_cast<int64_t>(i);
        const uint32_t place = entries[i].place();
        store(y + at * to_.stride, element(x, place));
        store(places + at * places_.stride, static_cast<int64_t>(place));
      }
    }
  }

 private:
  static T element(const uint8_t* x, size_t i) { return load<T>(x + i * sizeof(T)); }
  Entry entry(const uint8_t* x, size_t i) const {
    return Entry(key_of(element(x, i), s_.largest), static_cast<uint32_t>(i));
  }
  // Returns whether a later element comes before the bound, which is a number.
  template <bool kLargest>
  static bool beyond(T value, T bound) {
    return kLargest ? !(value <= bound) : !(value >= bound);
  }

  bool dense() const { return from_.size < 2 || from_.stride == static_cast<int64_t>(sizeof(T)); }
  size_t line_bytes() const { return dense() ? 0 : align64(n_ * sizeof(T)); }

  const uint8_t* gather_line(const uint8_t* x, uint8_t* line) const {
    for (size_t i = 0; i < n_; ++i)
      store(line + i * sizeof(T), load<T>(x + static_cast<int64_t>(i) * from_.stride));
    return line;
  }

  // Calls take(i), i ascending, for every element from `first` on that comes before the bound. take returns
  // the new bound. Within a block it is also called for elements that came before an earlier bound.
  template <class Take>
  void pass(const uint8_t* x, size_t first, T bound, const Take& take) const {
    size_t i = first;
    const auto each = [&](size_t until) {
      for (; i < until && bound == bound; i += kGroup) {
        for (uint64_t before = all_beyond(x + i * sizeof(T), bound); before != 0; before &= before - 1) {
          bound = take(i + static_cast<size_t>(std::countr_zero(before)) / 8);
        }
      }
    };
    while (i + kBlock <= n_ && bound == bound) {
      const bool rare = i > 2 * kBlock * k_;  // for elements in random order
      if (rare && !any_beyond(x + i * sizeof(T), bound)) {
        i += kBlock;
      } else {
        each(i + kBlock);
      }
    }
    for (; i < n_ && bound == bound; ++i) {
      const T value = element(x, i);
      if (s_.largest ? beyond<true>(value, bound) : beyond<false>(value, bound)) bound = take(i);
    }
  }

  // Vectorized comparisons with the bound: whether any element of a block comes before it, and which of
  // kGroup do, one byte each.
  bool any_beyond(const uint8_t* x, T bound) const {
    return s_.largest ? any_of<true>(x, bound) : any_of<false>(x, bound);
  }
  template <bool kLargest>
  static bool any_of(const uint8_t* x, T bound) {
    using Mask =
        std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint8_t>>;
    Mask any = 0;
    for (size_t j = 0; j < kBlock; ++j)
      any |= beyond<kLargest>(element(x, j), bound) ? static_cast<Mask>(~Mask{0}) : Mask{0};
    return any != 0;
  }
  uint64_t all_beyond(const uint8_t* x, T bound) const {
    return s_.largest ? all_of<true>(x, bound) : all_of<false>(x, bound);
  }
  template <bool kLargest>
  static uint64_t all_of(const uint8_t* x, T bound) {
    std::array<uint8_t, kGroup> flags;
    for (size_t j = 0; j < kGroup; ++j) flags[j] = beyond<kLargest>(element(x, j), bound) ? 1 : 0;
    uint64_t all;
    std::memcpy(&all, flags.data(), sizeof all);
    return all;
  }

  void keep_few(const uint8_t* x, Entry* best) const {
    const auto put = [&](size_t count, size_t i) {
      const Entry next = entry(x, i);
      for (; count > 0 && next > best[count - 1]; --count) best[count] = best[count - 1];
      best[count] = next;
    };
    for (size_t i = 0; i < k_; ++i) put(i, i);
    pass(x, k_, element(x, best[k_ - 1].place()), [&](size_t i) {
      put(k_, i);
      return element(x, best[k_ - 1].place());
    });
  }

  // Collects candidates, and keeps the best k of them whenever the room is full.
  void select(const uint8_t* x, Entry* best) const {
    size_t count = room_;
    for (size_t i = 0; i < count; ++i) best[i] = entry(x, i);
    const auto bound = [&] {
      if (count > k_) std::nth_element(best, best + k_ - 1, best + count, std::greater<>());
      count = k_;
      return element(x, best[k_ - 1].place());
    };
    if (room_ < n_) {
      T now = bound();
      pass(x, room_, now, [&](size_t i) {
        best[count++] = entry(x, i);
        if (count == room_) now = bound();
        return now;
      });
    }
    bound();
    if (k_ <= kShort) {
      std::sort(best, best + k_, std::greater<>());
    } else {
      sort_by_digits(best, best + room_, k_);
    }
  }
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
