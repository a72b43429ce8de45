// What each output of a Resize along an axis reads, from the sizes alone (N57): numerics.resize.
#include <algorithm>
#include <array>
#include <cmath>

#include "engine/binding.h"
#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/sizes.h"
#include "steps/common/named_kinds.h"
#include "steps/copy.h"

namespace intact::engine {
namespace {

enum class Mode : uint8_t { nearest, linear, cubic };
constexpr const char* kModes[] = {"nearest", "linear", "cubic"};
constexpr std::array<int64_t, 3> kTerms = {1, 2, 4};

enum class Coordinates : uint8_t { half_pixel, symmetric, pytorch, asymmetric, align_corners };
constexpr const char* kCoordinates[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                        "asymmetric", "align_corners"};

enum class Rounding : uint8_t { prefer_floor, prefer_ceil, floor, ceil };
constexpr const char* kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

struct Axis {
  int64_t size, wanted;
  double scale;
};

// Where output i lies among the inputs; every operation is rounded in Real.
template <class Real>
Real position(Coordinates coordinates, const Axis& axis, int64_t output) {
  const Real i = static_cast<Real>(output), scale = static_cast<Real>(axis.scale), half = Real(0.5);
  const Real size = static_cast<Real>(axis.size), wanted = static_cast<Real>(axis.wanted);
  switch (coordinates) {
    case Coordinates::half_pixel: return (i + half) / scale - half;
    case Coordinates::symmetric: return (i + half) / scale - half + size / 2 * (1 - wanted / (scale * size));
    case Coordinates::pytorch: return axis.wanted > 1 ? (i + half) / scale - half : Real(0);
    case Coordinates::asymmetric: return i / scale;
    case Coordinates::align_corners: return axis.wanted > 1 ? i * (size - 1) / (wanted - 1) : Real(0);
  }
  return 0;
}

float round_to_whole(Rounding rounding, float at) {
  switch (rounding) {
    case Rounding::prefer_floor: return std::ceil(at - 0.5f);
    case Rounding::prefer_ceil: return std::floor(at + 0.5f);
    case Rounding::floor: return std::floor(at);
    case Rounding::ceil: return std::ceil(at);
  }
  return at;
}

// Keys' cubic weight of an element by its distance.
double keys(double away, double a) {
  if (away <= 1) return ((a + 2) * away - (a + 3)) * (away * away) + 1;
  return away < 2 ? ((a * away - 5 * a) * away + 8 * a) * away - 4 * a : 0;
}

// The element at a whole number, which may lie beyond the ends.
template <class Real>
int64_t within(Real whole, int64_t size) {
  return static_cast<int64_t>(std::clamp<Real>(whole, 0, static_cast<Real>(size - 1)));
}

struct ResizePlaces final : PlanStep {
  explicit ResizePlaces(Fields& f)
      : PlanStep(f, {}),
        places(f.writes("places")),
        size(f.dim(f.item("size"))),
        wanted(f.dim(f.item("wanted"))),
        mode(find_kind<Mode>(kModes, f.one_of("mode", kModes)).value()),
        coordinates(find_kind<Coordinates>(kCoordinates, f.one_of("coordinates", kCoordinates)).value()),
        rounding(find_kind<Rounding>(kRoundings, f.one_of("rounding", kRoundings)).value()),
        cubic_coeff_a(f.real("cubic_coeff_a")),
        exclude_outside(f.truth("exclude_outside")),
        scale(f.real_or_none("scale")),
        weights(f.writes("weights", true)) {}

  int64_t terms() const { return kTerms[static_cast<size_t>(mode)]; }

  void check(const Checker& checker) const override {
    const bool is_nearest = mode == Mode::nearest;
    checker.that((weights == kNoValue) == is_nearest, "weights for what is summed alone");
    checker.that(checker.is(places, Type::i64) && checker.rank(places) == (is_nearest ? 1 : 2),
                 "int64, a row for each output");
    if (weights != kNoValue) {
      checker.floats(weights);
      checker.ranks(2, weights);
    }
    checker.that(scale.value_or(1) > 0 && scale.value_or(1) < 0x1p31, "a scale above 0");
    checker.that(std::isfinite(cubic_coeff_a), "a finite coefficient");
  }

  Axis axis_of(const std::vector<int64_t>& numbers) const {
    const double ratio = static_cast<double>(numbers[1]) / static_cast<double>(numbers[0]);
    return {numbers[0], numbers[1], scale.value_or(ratio)};
  }

  void made_shapes(const Sizes& sizes, std::vector<Shape>& made) const override {
    const std::vector<int64_t> numbers = sizes.numbers({size, wanted});
    if (numbers[0] < 1 || numbers[1] < 0) {
      sizes.mismatch(places, std::to_string(numbers[1]) + " elements of " + std::to_string(numbers[0]),
                     "elements of some");
    }
    if (mode == Mode::nearest) return made.push_back({numbers[1]});
    made.assign(2, {numbers[1], terms()});
  }

  void bind(Binding& binding) const override {
    const Axis axis = axis_of(binding.numbers({size, wanted}));
    std::vector<int64_t> read;
    std::vector<float> by;
    for (int64_t i = 0; i < axis.wanted; ++i) {
      if (mode == Mode::nearest) {
        const float at = round_to_whole(rounding, position<float>(coordinates, axis, i));
        read.push_back(within(at, axis.size));
      } else {
        weigh(axis, position<double>(coordinates, axis, i), read, by);
      }
    }
    write(binding, places, read, Type::i64);
    if (weights != kNoValue) write(binding, weights, by, Type::f32);
  }

  // The elements that one output sums, and their weights.
  void weigh(const Axis& axis, double at, std::vector<int64_t>& read, std::vector<float>& by) const {
    const double low = std::floor(at);
    std::array<double, 4> found{1 - (at - low), at - low};
    const double first = mode == Mode::cubic ? low - 1 : low;
    const auto count = static_cast<size_t>(terms());
    for (size_t k = 0; k < count; ++k) {
      const double place = first + static_cast<double>(k);
      if (mode == Mode::cubic) {
        const bool inside = place >= 0 && place < static_cast<double>(axis.size);
        found[k] = exclude_outside && !inside ? 0 : keys(std::abs(at - place), cubic_coeff_a);
      }
      read.push_back(within(place, axis.size));
    }
    const double total =
        mode == Mode::cubic && exclude_outside ? found[0] + found[1] + found[2] + found[3] : 1;
    for (size_t k = 0; k < count; ++k) by.push_back(static_cast<float>(found[k] / total));
  }

  template <class T>
  static void write(Binding& binding, int tensor, const std::vector<T>& values, Type type) {
    const View held = binding.hold(values, type, binding.shape(tensor));
    binding.add(make_copy(*binding.kernels.transpose, {held, binding.view(tensor)}));
  }

  int places;
  Dim size, wanted;
  Mode mode;
  Coordinates coordinates;
  Rounding rounding;
  double cubic_coeff_a;
  bool exclude_outside;
  std::optional<double> scale;
  int weights;
};

}  // namespace

std::unique_ptr<PlanStep> read_resize_places(Fields& fields) {
  return std::make_unique<ResizePlaces>(fields);
}

}  // namespace intact::engine
