// Convolutions and products with constant weights: one native convolution, in the form that pays.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/kinds/epilogue.h"
#include "steps/conv.h"

namespace intact::engine {

// Weights int8 [out, kernel_h, kernel_w, in / groups]: those of a constant, or some of its taps.
struct PartialWeights {
  int64_t out, kernel_h, kernel_w, in;
  // Makes them of the constant, once for all sizes; none: they are the constant itself.
  std::function<std::vector<int8_t>(const int8_t*)> make;
};

// One native convolution of a layer.
struct PartialConv {
  int constant;  // the layer's weights, under whose name they are packed
  PartialWeights weight;
  View x, y;  // images (n, h, w, c)
  std::optional<View> residual, low;  // low: the low bytes of codes of 16 bits, whose high ones are x
  Pair strides{1, 1}, dilations{1, 1};
  Pair origin{0, 0};  // the pixel of x under the first tap of y's pixel (0, 0)
  int64_t groups = 1;
  int64_t repeats = 1;  // so often the layer's output channels follow one another in y's
  std::string label;    // tells the weights of the parts of a layer apart: the taps
};

// What a layer says beside its parts.
struct LayerRecord {
  const EpilogueRecord& epilogue;
  int x, y;
  int low = kNoValue;  // of codes of 16 bits
  int64_t shift = 0;
};

// Adds the native convolution, in the form that is chosen.
void add_conv(PartialConv part, const LayerRecord& layer, Binding& binding);

PackedWeights packed_weights(const Bytes& bytes);

// The sum of each output channel's weights; kept with the packed ones.
std::vector<int64_t> weight_sums(const PartialConv& part, Binding& binding);

}  // namespace intact::engine
