#include "steps/arg_max.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "steps/common/line_step.h"

namespace intact {
namespace {

using namespace tuning::indexing;

// The comparison of an element with the largest so far. It has no branches, so that the compiler vectorizes
// loops over it. The smallest is the largest of elements in the opposite order.
template <class T, bool kLast>
struct Race {
  using Bits =
      std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint8_t>>;
  // Exclusive or with it: negates a float, and complements an integer.
  static constexpr Bits kOpposite =
      std::is_floating_point_v<T> ? Bits{1} << (8 * sizeof(T) - 1) : static_cast<Bits>(~Bits{0});

  static T element(const uint8_t* x, Bits order) {
    return std::bit_cast<T>(static_cast<Bits>(load<Bits>(x) ^ order));
  }
  // Returns whether an element replaces the largest one before it.
  static bool wins(T next, T best) {
    const bool further = best < next, none = next != next;
    if constexpr (kLast) return further | (next == best) | none;
    return further | (none & (best == best));
  }
  // The same for elements in any order, with their indices.
  static bool wins(T next, int32_t place, T best, int32_t best_place) {
    const bool alike = next == best || (next != next && best != best);
    return alike ? (kLast ? best_place < place : place < best_place) : wins(next, best);
  }
  // Compares element k of each of n lines.
  static void go(const uint8_t* row, size_t n, int32_t k, Bits order, T* best, int32_t* places) {
    for (size_t i = 0; i < n; ++i) {
      const T next = element(row + i * sizeof(T), order);
      const bool won = wins(next, best[i]);
      best[i] = won ? next : best[i];
      places[i] = won ? k : places[i];
    }
  }
};

template <class T, bool kLast>
class ArgMax final : public LineStep {
  using Of = Race<T, kLast>;

 public:
  ArgMax(const TransposeOps& turn, const ArgMaxSpec& s)
      : LineStep(s.x, s.y, s.axis),
        turn_(sizeof(T) == 1 ? turn.bytes : turn.words),
        order_(s.smallest ? Of::kOpposite : 0) {
    demand(s.y.type == Type::i64 && to_.size == 1, "places are int64, one for each line");
    demand(from_.size > 0 || items() == 0, "a line is empty");
    demand(from_.size <= std::numeric_limits<int32_t>::max(), "a line is too long");
  }

  std::string name() const override { return "arg_max"; }
  size_t scratch() const override { return kTurned * kLines * sizeof(T); }

  void run_lines(const uint8_t* x, uint8_t* y, size_t n, uint8_t* scratch) const noexcept override {
    const bool dense = from_.stride == kUnit;
    int32_t places[kLines] = {};  // n of them are written; GCC cannot see that
    if (dense && (from_.size >= kLongLine || n < kFewLines)) {
      for (size_t i = 0; i < n; ++i) places[i] = line(x + static_cast<int64_t>(i) * stride(0));
    } else {
      beside(x, n, dense && sizeof(T) <= 4, scratch, places);
    }
    for (size_t i = 0; i < n; ++i) {
      store(y + static_cast<int64_t>(i) * stride(1), static_cast<int64_t>(places[i]));
    }
  }

 private:
  static constexpr int64_t kUnit = sizeof(T);

  // One line. kRunners lanes take every sixteenth element each, and are compared at the end.
  int32_t line(const uint8_t* x) const {
    T best[kRunners];
    int32_t places[kRunners] = {};
    const auto runners = static_cast<int64_t>(kRunners);
    const int64_t rounds = from_.size / runners;
    const int64_t rest = rounds * runners;
    int32_t place = 0;
    T leader = Of::element(x, order_);
    if (rounds > 0) {
      for (size_t i = 0; i < kRunners; ++i) best[i] = Of::element(x + i * sizeof(T), order_);
      for (int64_t k = 1; k < rounds; ++k) {
        Of::go(x + k * runners * kUnit, kRunners, static_cast<int32_t>(k), order_, best, places);
      }
      leader = best[0];
      place = places[0] * static_cast<int32_t>(kRunners);
      for (size_t i = 1; i < kRunners; ++i) {
        const int32_t at = places[i] * static_cast<int32_t>(kRunners) + static_cast<int32_t>(i);
        if (!Of::wins(best[i], at, leader, place)) continue;
        leader = best[i];
        place = at;
      }
    }
    for (int64_t k = std::max<int64_t>(rest, 1); k < from_.size; ++k) {
      const T next = Of::element(x + k * kUnit, order_);
      if (!Of::wins(next, leader)) continue;
      leader = next;
      place = static_cast<int32_t>(k);
    }
    return place;
  }

  // Many lines at once, element by element. Elements that are not neighbours in memory are gathered or
  // transposed.
  void beside(const uint8_t* x, size_t n, bool turns, uint8_t* scratch, int32_t* places) const {
    T best[kLines];
    const size_t row = n * sizeof(T);
    for (int64_t from = 0; from < from_.size; from += turns ? kTurned : 1) {
      const int64_t count = turns ? std::min<int64_t>(kTurned, from_.size - from) : 1;
      const uint8_t* rows = x + from * from_.stride;
      if (turns) {
        turn_(rows, stride(0), n, static_cast<size_t>(count), scratch, static_cast<ptrdiff_t>(row));
        rows = scratch;
      } else if (stride(0) != kUnit) {
        for (size_t i = 0; i < n; ++i) {
          std::memcpy(scratch + i * sizeof(T), rows + static_cast<int64_t>(i) * stride(0), sizeof(T));
        }
        rows = scratch;
      }
      for (int64_t k = 0; k < count; ++k, rows += row) {
        if (from + k == 0) {
          for (size_t i = 0; i < n; ++i) best[i] = Of::element(rows + i * sizeof(T), order_);
          std::fill(places, places + n, 0);
        } else {
          Of::go(rows, n, static_cast<int32_t>(from + k), order_, best, places);
        }
      }
    }
  }

  void (*turn_)(const uint8_t*, ptrdiff_t, size_t, size_t, uint8_t*, ptrdiff_t);
  typename Of::Bits order_;
};

}  // namespace

std::unique_ptr<Step> make_arg_max(const TransposeOps& turn, const ArgMaxSpec& s) {
  const auto of = [&]<class T>(T) -> std::unique_ptr<Step> {
    if (s.last) return std::make_unique<ArgMax<T, true>>(turn, s);
    return std::make_unique<ArgMax<T, false>>(turn, s);
  };
  switch (s.x.type) {
    case Type::f32: return of(float{});
    case Type::i32: return of(int32_t{});
    case Type::i64: return of(int64_t{});
    case Type::u8: return of(uint8_t{});
    case Type::i8: return of(int8_t{});
    default: refuse("elements are float32, int32, int64, uint8 or int8");
  }
}

}  // namespace intact
