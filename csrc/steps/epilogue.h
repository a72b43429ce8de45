// What all forms of a convolution share: checks of their images and epilogues, and their constants by panel.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/gemm/cells.h"
#include "steps/conv.h"

namespace intact {

template <class Bytes>
Bytes align64(Bytes n) {
  return (n + 63) / 64 * 64;
}

inline void refuse_unless(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

inline bool is_image(const View& v) {
  return v.rank == 4 && v.strides[3] == static_cast<int64_t>(bytes_of(v.type));
}

// `high` is the largest byte of x for which the weights were packed.
inline void check_images(const ConvSpec& s, int64_t in, int64_t out, int32_t high) {
  const View &x = s.x, &y = s.y;
  refuse_unless(x.high <= high, "weights are packed for smaller bytes");
  refuse_unless(is_image(x) && x.type == Type::u8, "conv reads an image of bytes with dense pixels");
  const Type written = s.epilogue.floats ? Type::f32 : Type::u8;
  refuse_unless(is_image(y) && y.type == written, "conv writes an image of dense pixels");
  refuse_unless(x.sizes[0] == y.sizes[0], "conv keeps the number of images");
  refuse_unless(y.sizes[3] == out && x.sizes[3] == in, "channels differ from the weights'");
  for (int i = 0; i < 4; ++i) refuse_unless(x.strides[i] >= 0, "conv reads rows in order");
  if (s.residual) {
    const View& r = *s.residual;
    refuse_unless(is_image(r) && r.type == Type::u8, "a residual is an image of bytes with dense pixels");
    for (int i = 0; i < 4; ++i) {
      refuse_unless(r.sizes[i] == y.sizes[i], "a residual has the sizes of the output");
    }
  }
  const auto each = static_cast<size_t>(out);
  refuse_unless(s.correction.size() == each && s.multiplier.size() == each && s.bias.size() == each,
                "one correction, multiplier and bias for each channel");
  refuse_unless(s.factors.empty() || s.factors.size() == each, "one factor for each channel");
  refuse_unless(s.slopes.empty() || s.slopes.size() == each, "one slope for each channel");
}

inline void check_epilogue(const ConvSpec& s) {
  const GemmEpilogue& e = s.epilogue;
  const auto byte = [](int32_t n) { return n >= 0 && n <= 255; };
  refuse_unless(byte(e.zero_point) && byte(e.residual_zero_point), "zero points are bytes");
  refuse_unless(byte(e.low) && byte(e.high) && e.low <= e.high, "bounds are bytes, low to high");
  refuse_unless(e.function == nullptr || e.scale > 0, "the scale of a function's output is not positive");
  refuse_unless(e.function != nullptr || s.factors.empty(), "factors stand behind a function");
  refuse_unless(e.function == nullptr || s.slopes.empty(), "slopes stand in place of a function");
}

// Whether no real can reach 2^30 before it is rounded, whatever the sums are.
inline bool bounded(const ConvSpec& s) {
  double most = 0;
  const double residual = 256 * std::fabs(double{s.epilogue.residual_multiplier}) + 256;
  for (size_t c = 0; c < s.multiplier.size(); ++c) {
    const double sum = std::fabs(double{s.multiplier[c]}) * 2147483648.0 + std::fabs(double{s.bias[c]});
    const double slope = s.slopes.empty() ? 1.0 : std::max(std::fabs(double{s.slopes[c]}), 1.0);
    const double real = (sum + residual) * slope;
    if (!(real <= most)) most = real;
  }
  return most < 1073741824.0;
}

// Bounds of the codes of an epilogue's function, or nullptr; `has_residual` and `bounded` are known.
inline std::unique_ptr<const FunctionCells> cells_of(const ConvSpec& s) {
  if (!s.factors.empty()) return nullptr;  // cells are of the function alone
  double bias = 0;
  for (const float b : s.bias) bias = std::max(bias, std::fabs(double{b}));
  return make_cells(s.epilogue, bias);
}

// Of all panels, each padded to its width.
struct Constants {
  std::vector<int32_t> correction;
  std::vector<float> multiplier, bias, factors, slopes;

  // Those of one panel. `shifted`: added to the corrections; may be empty.
  void append(const ConvSpec& s, int32_t channel, int32_t channels, int32_t width,
              const std::vector<int32_t>& shifted) {
    for (int32_t c = 0; c < width; ++c) {
      const auto from = static_cast<size_t>(channel + c);
      const bool exists = c < channels;
      const auto more = shifted.empty() ? 0u : static_cast<uint32_t>(shifted[static_cast<size_t>(c)]);
      const uint32_t own = exists ? static_cast<uint32_t>(s.correction[from]) + more : 0u;
      correction.push_back(static_cast<int32_t>(own));
      multiplier.push_back(exists ? s.multiplier[from] : 0.0f);
      bias.push_back(exists ? s.bias[from] : 0.0f);
      if (!s.factors.empty()) factors.push_back(exists ? s.factors[from] : 0.0f);
      if (!s.slopes.empty()) slopes.push_back(exists ? s.slopes[from] : 0.0f);
    }
  }

  // Those of the panel that begins at `at`; nullptr where there are none.
  static const float* part_of(const std::vector<float>& values, size_t at) {
    return values.empty() ? nullptr : values.data() + at;
  }
};

}  // namespace intact
