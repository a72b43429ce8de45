// The rows of the family: plain loops, which compilers make vectors of, once for each instruction set.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/inline.h"
#include "kernels/convert/convert.h"
#include "kernels/elementwise/elementwise.h"

namespace intact {
namespace {

using Bool = uint8_t;  // 0 or 1
template <class T>
using Unsigned = std::make_unsigned_t<T>;

struct Equal {
  template <class T>
  Bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Less {
  template <class T>
  Bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessOrEqual {
  template <class T>
  Bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct And {
  Bool operator()(Bool a, Bool b) const { return static_cast<Bool>((a != 0) & (b != 0)); }
};
struct Or {
  Bool operator()(Bool a, Bool b) const { return static_cast<Bool>((a != 0) | (b != 0)); }
};
struct Xor {
  Bool operator()(Bool a, Bool b) const { return static_cast<Bool>((a != 0) ^ (b != 0)); }
};

// Integers wrap around: unsigned ones do so by the language. Floats of 64 bits are rounded.
template <class T>
constexpr bool kIsReal = std::is_floating_point_v<T>;
template <class T>
T wrapped(Unsigned<T> n) {
  return static_cast<T>(n);
}
struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsReal<T>) {
      return a + b;
    } else {
      return wrapped<T>(Unsigned<T>(a) + Unsigned<T>(b));
    }
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsReal<T>) {
      return a - b;
    } else {
      return wrapped<T>(Unsigned<T>(a) - Unsigned<T>(b));
    }
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsReal<T>) {
      return a * b;
    } else {
      return wrapped<T>(Unsigned<T>(a) * Unsigned<T>(b));
    }
  }
};
struct BitwiseAnd {
  template <class T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
// A NaN is larger, and smaller, than any number.
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || b != b ? b : a;
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};
// Of 0 there is no quotient, and of the least number by -1 none that fits: 0, and the least number.
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsReal<T>) {
      return a / b;
    } else {
      return b == 0 ? T{0} : b == -1 ? Sub()(T{0}, a) : static_cast<T>(a / b);
    }
  }
};
struct Fmod {
  template <class T>
  T operator()(T a, T b) const {
    return b == 0 || b == -1 ? T{0} : static_cast<T>(a % b);
  }
};
struct Mod {
  template <class T>
  T operator()(T a, T b) const {
    const T left = Fmod()(a, b);
    return left != 0 && (left < 0) != (b < 0) ? static_cast<T>(left + b) : left;
  }
};

struct Not {
  Bool operator()(Bool x) const { return x == 0; }
};
struct Neg {
  template <class T>
  T operator()(T x) const {
    return Sub()(T{0}, x);
  }
};
// numerics.exp64: 2^k of the whole part, a polynomial of the rest.
struct Exp64 {
  double operator()(double x) const {
    if (x != x) return x;
    x = x < -760.0 ? -760.0 : x;
    x = x > 720.0 ? 720.0 : x;
    const double k = std::nearbyint(x * kPerLog2);
    const double r = (x - k * kHigh) - k * kLow;
    double y = kTerms[0];
    for (size_t i = 1; i < sizeof kTerms / sizeof *kTerms; ++i) y = y * r + kTerms[i];
    const double half = std::floor(k * 0.5);
    return y * power(half) * power(k - half);
  }

 private:
  static double power(double k) {
    return std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(k) + 1023) << 52);
  }
  static constexpr double kPerLog2 = 0x1.71547652b82fep+0, kHigh = 0x1.62e42feep-1,
                          kLow = 0x1.a39ef35793c76p-33;
  // 1 / n! from n = 13 on down.
  static constexpr double kTerms[] = {0x1.6124613a86d09p-33,
                                      0x1.1eed8eff8d898p-29,
                                      0x1.ae64567f544e4p-26,
                                      0x1.27e4fb7789f5cp-22,
                                      0x1.71de3a556c734p-19,
                                      0x1.a01a01a01a01ap-16,
                                      0x1.a01a01a01a01ap-13,
                                      0x1.6c16c16c16c17p-10,
                                      0x1.1111111111111p-7,
                                      0x1.5555555555555p-5,
                                      0x1.5555555555555p-3,
                                      0x1p-1,
                                      0x1p+0,
                                      0x1p+0};
};
struct Abs {
  template <class T>
  T operator()(T x) const {
    return x < 0 ? Neg()(x) : x;
  }
};
struct Floor {
  float operator()(float x) const { return std::floor(x); }
};
struct Ceil {
  float operator()(float x) const { return std::ceil(x); }
};
// Ties to even.
struct Round {
  float operator()(float x) const { return std::nearbyint(x); }
};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
struct IsNaN {
  Bool operator()(float x) const { return x != x; }
};
struct IsInf {
  Bool operator()(float x) const { return static_cast<Bool>((x == kInfinity) | (x == -kInfinity)); }
};
struct IsPosInf {
  Bool operator()(float x) const { return x == kInfinity; }
};
struct IsNegInf {
  Bool operator()(float x) const { return x == -kInfinity; }
};

// Towards zero; what does not fit becomes the nearest number that does, a NaN 0.
template <class To, class From>
To whole(From x) {
  constexpr To kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
  constexpr From kBeyond = static_cast<From>(kHigh / 2 + 1) * 2;  // a power of two
  const bool fits = static_cast<From>(kLow) - 1 < x || static_cast<From>(kLow) == x;
  const bool within = fits && x < kBeyond;
  const To inside = static_cast<To>(within ? x : From{0});
  return within ? inside : x >= kBeyond ? kHigh : x < 0 ? kLow : To{0};
}

struct Flag {};  // stands for bool among the types of a cast

template <class To, class From>
auto cast(From x) {
  if constexpr (std::is_same_v<To, Flag>) {
    return static_cast<Bool>(x != From{0});
  } else if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>) {
    return whole<To>(x);
  } else {
    return static_cast<To>(x);  // of integers the lower bits; of floats the nearest, ties to even
  }
}

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, Flag>, Bool, T>;

template <class To, class From>
void cast_row(const void* const* xs, size_t n, void* y) {
  const auto* const x = static_cast<const Stored<From>*>(xs[0]);
  auto* const to = static_cast<Stored<To>*>(y);
  for (size_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<From, Flag>) {
      to[i] = static_cast<Stored<To>>(x[i] != 0);
    } else {
      to[i] = cast<To>(x[i]);
    }
  }
}

template <const ConvertOps& kConvert>
void from_half(const void* const* xs, size_t n, void* y) {
  kConvert.from_f16(static_cast<const uint16_t*>(xs[0]), n, static_cast<float*>(y));
}

template <const ConvertOps& kConvert>
void to_half(const void* const* xs, size_t n, void* y) {
  kConvert.to_f16(static_cast<const float*>(xs[0]), n, static_cast<uint16_t*>(y));
}

template <class F, class T, class R>
void unary_row(const void* const* xs, size_t n, void* y) {
  const T* const x = static_cast<const T*>(xs[0]);
  for (size_t i = 0; i < n; ++i) static_cast<R*>(y)[i] = F()(x[i]);
}

// Apart, so that rows with operands swapped are calls.
template <class F, class T, class R, size_t kMoves>
INTACT_APART void binary_row(const void* const* xs, size_t n, void* y) {
  const T *const a = static_cast<const T*>(xs[0]), *const b = static_cast<const T*>(xs[1]);
  R* const to = static_cast<R*>(y);
  for (size_t i = 0; i < n; ++i) to[i] = F()(a[kMoves & 1 ? i : 0], b[kMoves & 2 ? i : 0]);
}

template <class T, size_t kMoves>
void where_row(const void* const* xs, size_t n, void* y) {
  const Bool* const test = static_cast<const Bool*>(xs[0]);
  const T *const a = static_cast<const T*>(xs[1]), *const b = static_cast<const T*>(xs[2]);
  T* const to = static_cast<T*>(y);
  for (size_t i = 0; i < n; ++i) {
    const T yes = a[kMoves & 2 ? i : 0], no = b[kMoves & 4 ? i : 0];
    to[i] = test[kMoves & 1 ? i : 0] != 0 ? yes : no;
  }
}

// The row of an operation whose operands change places.
template <ElementwiseRow kRow>
void swapped_row(const void* const* xs, size_t n, void* y) {
  const void* const swapped[] = {xs[1], xs[0]};
  kRow(swapped, n, y);
}

template <class R>
INTACT_APART void fill_row(R value, size_t n, R* y) {
  for (size_t i = 0; i < n; ++i) y[i] = value;
}

template <class F, class T, class R>
void constant_row(const void* const* xs, size_t n, void* y) {
  fill_row(static_cast<R>(F()(*static_cast<const T*>(xs[0]), *static_cast<const T*>(xs[1]))), n,
           static_cast<R*>(y));
}

// Whether operands may change places: not those of Max and Min, which return the first of two zeros.
template <class F>
constexpr bool kCommutes =
    std::is_same_v<F, Add> || std::is_same_v<F, Mul> || std::is_same_v<F, Equal> || std::is_same_v<F, And> ||
    std::is_same_v<F, Or> || std::is_same_v<F, Xor> || std::is_same_v<F, BitwiseAnd>;

// A loop for each combination of operands that move.
template <class F, class T, class R>
ElementwiseRow binary(unsigned moves) {
  constexpr ElementwiseRow kSecond = binary_row<F, T, R, 2>;
  constexpr ElementwiseRow kFirst = kCommutes<F> ? swapped_row<kSecond> : binary_row<F, T, R, 1>;
  constexpr ElementwiseRow kRows[] = {constant_row<F, T, R>, kFirst, kSecond, binary_row<F, T, R, 3>};
  return kRows[moves & 3];
}

// a > b is b < a.
template <class F, class T>
ElementwiseRow reversed(unsigned moves) {
  constexpr ElementwiseRow kRows[] = {
      swapped_row<constant_row<F, T, Bool>>, swapped_row<binary_row<F, T, Bool, 2>>,
      swapped_row<binary_row<F, T, Bool, 1>>, swapped_row<binary_row<F, T, Bool, 3>>};
  return kRows[moves & 3];
}

template <class T, size_t... kMoves>
ElementwiseRow where_of(unsigned moves, std::index_sequence<kMoves...>) {
  constexpr ElementwiseRow kRows[] = {where_row<T, kMoves>...};
  return kRows[moves & 7];
}

inline ElementwiseRow where(Type x, Type y, unsigned moves) {
  constexpr std::make_index_sequence<8> kAll;
  if (x != y) return nullptr;
  switch (bytes_of(x)) {
    case 1: return where_of<uint8_t>(moves, kAll);
    case 2: return where_of<uint16_t>(moves, kAll);
    case 4: return where_of<uint32_t>(moves, kAll);
    default: return where_of<uint64_t>(moves, kAll);
  }
}

template <class From>
ElementwiseRow cast_from(Type y) {
  switch (y) {
    case Type::u8: return cast_row<uint8_t, From>;
    case Type::i8: return cast_row<int8_t, From>;
    case Type::b8: return cast_row<Flag, From>;
    case Type::i32: return cast_row<int32_t, From>;
    case Type::i64: return cast_row<int64_t, From>;
    case Type::f32: return cast_row<float, From>;
    case Type::f64: return cast_row<double, From>;
    default: return nullptr;
  }
}

template <const ConvertOps& kConvert>
ElementwiseRow cast_row_of(Type x, Type y) {
  if (x == Type::f16) return y == Type::f32 ? from_half<kConvert> : nullptr;
  if (y == Type::f16) return x == Type::f32 ? to_half<kConvert> : nullptr;
  switch (x) {
    case Type::u8: return cast_from<uint8_t>(y);
    case Type::i8: return cast_from<int8_t>(y);
    case Type::b8: return cast_from<Flag>(y);
    case Type::i32: return cast_from<int32_t>(y);
    case Type::i64: return cast_from<int64_t>(y);
    case Type::f32: return cast_from<float>(y);
    case Type::f64: return cast_from<double>(y);
    default: return nullptr;
  }
}

// kReversed: of the second operand and the first.
template <class F, bool kReversed, class T>
ElementwiseRow comparison_of(unsigned moves) {
  if constexpr (kReversed) {
    return reversed<F, T>(moves);
  } else {
    return binary<F, T, Bool>(moves);
  }
}

template <class F, bool kReversed = false>
ElementwiseRow comparison(Type x, Type y, unsigned moves) {
  if (y != Type::b8) return nullptr;
  switch (x) {
    case Type::u8:
    case Type::b8: return comparison_of<F, kReversed, uint8_t>(moves);
    case Type::i8: return comparison_of<F, kReversed, int8_t>(moves);
    case Type::i32: return comparison_of<F, kReversed, int32_t>(moves);
    case Type::i64: return comparison_of<F, kReversed, int64_t>(moves);
    case Type::f32: return comparison_of<F, kReversed, float>(moves);
    case Type::f64: return comparison_of<F, kReversed, double>(moves);
    default: return nullptr;
  }
}

template <class F>
ElementwiseRow logic(Type x, Type y, unsigned moves) {
  return x == Type::b8 && y == Type::b8 ? binary<F, Bool, Bool>(moves) : nullptr;
}

template <class F>
ElementwiseRow arithmetic(Type x, Type y, unsigned moves) {
  if (x != y) return nullptr;
  return x == Type::i32   ? binary<F, int32_t, int32_t>(moves)
         : x == Type::i64 ? binary<F, int64_t, int64_t>(moves)
                          : nullptr;
}

// Of integers, and of floats of 64 bits.
template <class F>
ElementwiseRow numbers(Type x, Type y, unsigned moves) {
  const bool reals = x == Type::f64 && y == Type::f64;
  return reals ? binary<F, double, double>(moves) : arithmetic<F>(x, y, moves);
}

template <class F>
ElementwiseRow of_integers(Type x, Type y) {
  if (x != y) return nullptr;
  return x == Type::i32   ? unary_row<F, int32_t, int32_t>
         : x == Type::i64 ? unary_row<F, int64_t, int64_t>
                          : nullptr;
}

// From elements of kX to elements of kY.
template <class F, Type kX, class X, Type kY, class Y>
ElementwiseRow unary(Type x, Type y) {
  return x == kX && y == kY ? unary_row<F, X, Y> : nullptr;
}
template <class F>
ElementwiseRow of_floats(Type x, Type y) {
  return unary<F, Type::f32, float, Type::f32, float>(x, y);
}
template <class F>
ElementwiseRow test_of_floats(Type x, Type y) {
  return unary<F, Type::f32, float, Type::b8, Bool>(x, y);
}

template <const ConvertOps& kConvert>
ElementwiseRow find_row(ElementwiseOperation operation, Type x, Type y, unsigned moves) {
  switch (operation) {
    case ElementwiseOperation::abs: return of_integers<Abs>(x, y);
    case ElementwiseOperation::add: return numbers<Add>(x, y, moves);
    case ElementwiseOperation::logical_and: return logic<And>(x, y, moves);
    case ElementwiseOperation::bitwise_and: return arithmetic<BitwiseAnd>(x, y, moves);
    case ElementwiseOperation::cast: return cast_row_of<kConvert>(x, y);
    case ElementwiseOperation::ceil: return of_floats<Ceil>(x, y);
    case ElementwiseOperation::div: return numbers<Div>(x, y, moves);
    case ElementwiseOperation::equal: return comparison<Equal>(x, y, moves);
    case ElementwiseOperation::exp: return unary<Exp64, Type::f64, double, Type::f64, double>(x, y);
    case ElementwiseOperation::floor: return of_floats<Floor>(x, y);
    case ElementwiseOperation::fmod: return arithmetic<Fmod>(x, y, moves);
    case ElementwiseOperation::greater: return comparison<Less, true>(x, y, moves);
    case ElementwiseOperation::greater_or_equal: return comparison<LessOrEqual, true>(x, y, moves);
    case ElementwiseOperation::is_inf: return test_of_floats<IsInf>(x, y);
    case ElementwiseOperation::is_nan: return test_of_floats<IsNaN>(x, y);
    case ElementwiseOperation::is_neg_inf: return test_of_floats<IsNegInf>(x, y);
    case ElementwiseOperation::is_pos_inf: return test_of_floats<IsPosInf>(x, y);
    case ElementwiseOperation::less: return comparison<Less>(x, y, moves);
    case ElementwiseOperation::less_or_equal: return comparison<LessOrEqual>(x, y, moves);
    case ElementwiseOperation::max: return numbers<Max>(x, y, moves);
    case ElementwiseOperation::min: return numbers<Min>(x, y, moves);
    case ElementwiseOperation::mod: return arithmetic<Mod>(x, y, moves);
    case ElementwiseOperation::mul: return numbers<Mul>(x, y, moves);
    case ElementwiseOperation::neg: return of_integers<Neg>(x, y);
    case ElementwiseOperation::logical_not: return unary<Not, Type::b8, Bool, Type::b8, Bool>(x, y);
    case ElementwiseOperation::logical_or: return logic<Or>(x, y, moves);
    case ElementwiseOperation::round: return of_floats<Round>(x, y);
    case ElementwiseOperation::sub: return numbers<Sub>(x, y, moves);
    case ElementwiseOperation::where: return where(x, y, moves);
    case ElementwiseOperation::logical_xor: return logic<Xor>(x, y, moves);
  }
  return nullptr;
}

template <const ConvertOps& kConvert>
constexpr ElementwiseOps ops_of() {
  return {find_row<kConvert>};
}

}  // namespace
}  // namespace intact
