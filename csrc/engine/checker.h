// What a step asks about the values that it names, when a plan is read.
#pragma once

#include <array>

#include "engine/failure.h"
#include "engine/plan.h"

namespace intact::engine {

// Largest values of numbers that say windows: far above what any image has.
constexpr int64_t kMostHop = int64_t{1} << 24, kMostWidth = int64_t{1} << 16;

class Checker {
 public:
  Checker(const Plan& plan_, const PlanStep& step) : plan(plan_), step_(step) {}

  void that(bool holds, const char* want) const {
    if (!holds) throw Failure(INTACT_BAD_FILE, step_.where() + ": want " + want);
  }
  const Codes* grid(int value) const { return plan.grid(value); }
  int rank(int value) const {
    return plan.is_tensor(value) ? plan.tensor(value).rank() : plan.constant(value).shape.rank;
  }
  const Shape& sizes(int constant) const { return plan.constant(constant).shape; }
  bool is_codes(int value) const { return grid(value) != nullptr; }
  // Of numbers, not of codes.
  Type type(int value) const {
    return plan.is_tensor(value) ? plan.tensor(value).type : plan.constant(value).type;
  }
  bool is(int value, Type wanted) const { return !is_codes(value) && type(value) == wanted; }
  bool same_dtype(int a, int b) const { return is_codes(a) == is_codes(b) && type(a) == type(b); }

  template <class... Values>
  void codes(Values... values) const {
    that((is_codes(values) && ...), "codes");
  }
  template <class... Values>
  void floats(Values... values) const {
    that((is(values, Type::f32) && ...), "float32");
  }
  template <class... Values>
  void one_dtype(int first, Values... others) const {
    that((same_dtype(first, others) && ...), "one dtype");
  }
  template <class... Values>
  void one_rank(int first, Values... others) const {
    that(rank(first) > 0 && ((rank(first) == rank(others)) && ...), "one rank for all");
  }
  template <class... Values>
  void ranks(int wanted, Values... values) const {
    that(((rank(values) == wanted) && ...), "tensors of another rank");
  }
  void one_grid(int a, int b) const {
    const Codes *x = grid(a), *y = grid(b);
    that((x == nullptr) == (y == nullptr) && (x == nullptr || *x == *y), "one grid");
  }
  void index(int value) const {
    that(is(value, Type::i64) || is(value, Type::i32), "int32 or int64 indices");
  }
  void axis(int value, int64_t axis) const { that(0 <= axis && axis < rank(value), "an axis that there is"); }
  // An entry for each axis of two values of one rank.
  void per_axis(int x, int y, size_t entries) const {
    that(rank(x) == rank(y) && static_cast<size_t>(rank(x)) == entries, "an entry for each axis");
  }
  // Windows over images.
  template <size_t N>
  void window(int x, int y, const std::array<int64_t, 2>& strides, const std::array<int64_t, 2>& dilations,
              const std::array<int64_t, N>& pads) const {
    ranks(4, x, y);
    for (const auto* hops : {&strides, &dilations}) {
      for (const int64_t n : *hops) that(0 < n && n <= kMostHop, "strides and dilations above 0");
    }
    for (const int64_t n : pads) that(0 <= n && n <= kMostWidth, "pads of 0 or more");
  }

  const Plan& plan;

 private:
  const PlanStep& step_;
};

}  // namespace intact::engine
