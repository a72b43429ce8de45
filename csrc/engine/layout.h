// The order in which a tensor's bytes lie, and its halo.
//
// Images, tensors of rank 4 that a convolution or a pool touches, lie channels last; what is computed from
// them element by element too, so that no step turns them round. Everything else is row-major. Inputs and
// outputs of the plan are row-major whatever touches them: where that contradicts, they are staged, and are
// copied.
//
// A caller's array with strides is read or written where it lies if every step that touches it takes any
// strides. Else it is staged, too.
//
// Reshapes and transposes move nothing where their elements lie right already, or may lie as they do; what is
// only concatenated is written into its part of the whole, and what is sliced for that is read where it lies.
#pragma once

#include <vector>

#include "engine/plan.h"

namespace intact::engine {

// How a tensor lies in memory of its own.
struct Frame {
  Axes strides;  // bytes, in ONNX's order of axes
  int64_t first = 0;  // bytes from the start to element 0: the halo before it
  int64_t nbytes = 0;
  Halo halo = kNoHalo;
  bool operator==(const Frame&) const = default;
};

struct OuterArray;

// By tensor.
struct Layout {
  std::vector<Frame> frames;
  std::vector<int> roots;  // whose memory it is, its own number where it has memory of its own
  std::vector<bool> staged;  // an input or output that lies in the arena besides
};

// What follows from the plan alone.
struct LayoutPlan {
  explicit LayoutPlan(const Plan& plan);
  std::vector<bool> images;
  std::vector<Halo> halos;
  std::vector<bool> outer, both;  // inputs and outputs, and what is an input and an output
  std::vector<size_t> movers;  // steps that do nothing but move elements
};

// `inputs` and `outputs`: the caller's arrays of all ports.
Layout lay_out(const Plan& plan, const LayoutPlan& known, const std::vector<Shape>& shapes,
               const std::vector<OuterArray>& inputs, const std::vector<OuterArray>& outputs);

// The strides of a tensor under another shape that has other axes of size 1. False for other shapes.
bool same_strides_under(const Shape& shape, const Axes& strides, const Shape& wanted, Axes& found);

// Whether two sets of strides lead to the same places: those of single positions lead nowhere.
bool same_strides(const Shape& shape, const Axes& a, const Axes& b);

}  // namespace intact::engine
