// What every kind of step has: its names, and what its home (csrc/engine/kinds/<kind>.cc) says about it. The
// records are those of src/intact/engine/steps, whose meaning in NumPy is normative.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/axes.h"
#include "engine/rules.h"

namespace intact::engine {

class Binding;
class Checker;
class Fields;
class Plan;
class Sizes;

constexpr int kNoValue = -1;  // a name that was left out

using Halo = std::array<int64_t, 4>;  // pixels above, left of, below and right of every image
constexpr Halo kNoHalo{};
using Pair = std::array<int64_t, 2>;  // down and across an image

// How a kind of step minds where bytes lie.
struct Traits {
  bool images = false;        // it walks over pixels: its tensors of rank 4 lie channels last
  bool follows = false;       // it takes and makes any order of axes, the same for all its tensors
  // Element i along the first axis of what it makes depends on elements i of what it reads alone, wherever
  // all of these have as many.
  bool by_image = false;
  bool strided = false;  // it reads and writes any strides at no cost worth a copy
  bool writes_parts = false;  // what it makes may be a part of a larger tensor
};

class PlanStep {
 public:
  PlanStep(Fields& fields, Traits traits_);
  // One that stands for steps of the file.
  PlanStep(std::string kind_, const PlanStep& named, Traits traits_)
      : kind(std::move(kind_)), name(named.name), index(named.index), traits(traits_) {}
  virtual ~PlanStep() = default;
  PlanStep(const PlanStep&) = delete;
  PlanStep& operator=(const PlanStep&) = delete;

  // Refuses what a file could say and no lowering would, beyond what fields and rules say.
  virtual void check(const Checker&) const {}
  // Sizes of the one tensor that it makes where no rule says them; unless it says otherwise, those of the
  // first value it reads.
  virtual Shape output_shape(const Sizes& sizes) const;
  // Sizes of all that it makes, in the order of `writes`.
  virtual void made_shapes(const Sizes& sizes, std::vector<Shape>& made) const;
  // Tells the sizes of all that it makes.
  virtual void infer(Sizes& sizes) const;
  // How far beyond its edges a tensor is read.
  virtual Halo halo(const Plan&, int /*value*/) const { return kNoHalo; }
  // Adds its native steps.
  virtual void bind(Binding& binding) const = 0;

  std::string where() const { return "step '" + name + "' (" + kind + ")"; }

  std::string kind, name;
  size_t index = 0;  // among the steps of the file: of one that stands for several, the last of them
  Traits traits;
  FieldValues fields;  // what rules ask for; none where it stands for steps of the file
  const Rules* rules = nullptr;
  // By role, in the order of the fields: tensors, or constants in their places, that it computes with;
  // tensors that it makes; constants.
  std::vector<int> reads, writes, constants;
  // Tensors that the output may overwrite when nobody reads them later: each of its elements is read before
  // that element is written, in the same piece of work.
  std::vector<int> in_place;
  // Of what it reads what its native steps are made of: constants, or tensors that follow from sizes alone.
  std::vector<int> fixed;
};

}  // namespace intact::engine
