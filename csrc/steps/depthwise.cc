#include "steps/depthwise.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/views.h"

namespace intact {
namespace {

using namespace tuning::images;

void demand_window(const DepthwiseSpec& s, const DepthwiseLayer& layer, int axis) {
  const auto [x, kernel, stride, dilation] = std::array<int64_t, 4>{
      s.x.sizes[axis + 1], axis == 0 ? layer.kernel_h : layer.kernel_w, s.strides[axis], s.dilations[axis]};
  demand(0 < kernel && kernel <= kMostTaps && 0 < stride && stride < kMostElements && 0 < dilation &&
             dilation < kMostElements / kMostTaps,
         "kernel, stride or dilation is out of range");
  const int64_t first = -int64_t{s.pads[axis]};
  const int64_t last = first + (s.y.sizes[axis + 1] - 1) * stride + (kernel - 1) * dilation;
  demand(-s.x.halo[axis] <= first && last < x + s.x.halo[axis + 2], "a tap leaves the halo");
}

// The largest magnitude that the sum of each channel can have.
std::vector<double> sums_of(const DepthwiseWeights& w) {
  std::vector<double> sums;
  for (int c = 0; c < w.channels; ++c) {
    double sum = std::abs(static_cast<double>(w.correction[c]));
    const double most = w.joins ? 65535.0 : 255.0;
    for (int t = 0; t < w.kernel_h * w.kernel_w; ++t) sum += most * std::abs(w.weight[t * w.channels + c]);
    sums.push_back(sum);
  }
  return sums;
}

// Returns whether the kernel computes codes of this function by bounds (gemm/cells.h).
bool has_bounds(const DepthwiseOps& ops, const SmoothFunction* f) {
  return ops.bounds == FunctionBounds::all ||
         (ops.bounds == FunctionBounds::with_end && f != nullptr && f->end > 0);
}

template <class T>
void repeat(std::vector<T>& values, size_t times) {
  const size_t n = values.size();
  for (size_t i = n; i < n * times; ++i) values.push_back(values[i - n]);
}

// The epilogue of a layer, once weights and numbers are checked.
EpilogueSpec checked(const DepthwiseWeights& w, EpilogueSpec epilogue) {
  for (const int taps : {w.kernel_h, w.kernel_w}) {
    demand(0 < taps && taps <= kMostTaps, "kernel, stride or dilation is out of range");
  }
  demand(w.kernel_h * w.kernel_w <= kMostTaps, "too many taps");
  demand(0 < w.channels && w.channels < (1 << 24), "the number of channels is out of range");
  check_epilogue(epilogue, w.channels);
  const bool has_curve = epilogue.function != nullptr || !epilogue.slopes.empty();
  demand(!has_curve || epilogue.ops != nullptr, "a function or slopes without their kernel");
  return epilogue;
}

class Depthwise final : public Step {
 public:
  Depthwise(std::shared_ptr<const DepthwiseLayer> layer, const DepthwiseSpec& s)
      : layer_(std::move(layer)), ops_(layer_->ops), s_(s), together_(layer_->pixels) {
    check();
    const DepthwiseOps& ops = ops_;
    blocks_ = (channels() + ops.block - 1) / ops.block;
    const auto size = [&](int axis) { return static_cast<size_t>(s_.y.sizes[axis]); };
    units_ = size(2) == 0 ? 0 : size(0) * size(1) * blocks_;
    const size_t products =
        size(2) / together_ * ops.block * static_cast<size_t>(layer_->kernel_h * layer_->kernel_w);
    each_ = std::max<size_t>(1, kDepthwiseProducts / std::max<size_t>(1, products));
    const size_t slack = channels() % ops.block == 0 ? 0 : ops.slack;
    reads(s.x, slack);
    if (s_.low) reads(*s_.low, slack);
    if (s.residual) reads(*s.residual, slack);
    writes(s.y);
  }

  size_t items() const override { return (units_ + each_ - 1) / each_; }
  int64_t work(size_t item) const override {
    return static_cast<int64_t>(std::min(units_, (item + 1) * each_) - item * each_);
  }
  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return has_curve() ? segment() * channels() * sizeof(float) : 0; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    DepthwiseRow d = constant();
    if (s_.low) d.apart = s_.low->at<uint8_t>(memory) - s_.x.at<uint8_t>(memory);
    const size_t last = std::min(end * each_, units_);
    for (size_t unit = begin * each_; unit < last;) {
      const size_t row = unit / blocks_;
      d.begin = unit % blocks_;
      d.end = std::min(blocks_, d.begin + last - unit);
      unit += d.end - d.begin;
      place(memory, row, d);
      run_row(d, reinterpret_cast<float*>(scratch));
      if (pixels() % together_ != 0) run_row(last_of(d), reinterpret_cast<float*>(scratch));
    }
  }

 private:
  void check() const {
    demand_image(s_.x, "x is an image of bytes (n, h, w, c)");
    for (const View* v : {&s_.x, &s_.y}) elements_of(*v);
    demand_pixels(s_.y);
    demand(s_.x.sizes[0] == s_.y.sizes[0] && s_.x.sizes[3] == s_.y.sizes[3], "x and y differ in n or c");
    demand(s_.x.sizes[3] == layer_->channels, "one filter for each channel");
    for (int axis : {0, 1}) demand_window(s_, *layer_, axis);
    check_ends(layer_->epilogue, s_.y, s_.residual);
    const int high = std::max<int>(s_.x.high, s_.low ? s_.low->high : 0);
    demand(high <= layer_->high && s_.low.has_value() == layer_->is_wide,
           "weights are packed for other codes");
    demand(together_ == 1 || together_ == joined_pixels(ops_, s_), "weights are packed for other rows");
    if (!s_.low) return;
    demand_image(*s_.low, "x is an image of bytes (n, h, w, c)");
    demand_same_sizes(*s_.low, s_.x);
    demand(s_.low->strides == s_.x.strides && s_.low->halo == s_.x.halo, "low bytes lie as the high ones do");
  }

  static void demand_pixels(const View& y) {
    const auto unit = static_cast<int64_t>(bytes_of(y.type));
    demand(y.rank == 4 && (y.sizes[3] < 2 || y.strides[3] == unit), "y is an image (n, h, w, c)");
  }

  size_t pixels() const { return static_cast<size_t>(s_.y.sizes[2]); }
  size_t channels() const { return static_cast<size_t>(s_.x.sizes[3]) * together_; }

  // The joined pixels that end with the last pixel of the row.
  DepthwiseRow last_of(const DepthwiseRow& row) const {
    DepthwiseRow d = row;
    const auto first = static_cast<int64_t>(pixels() - together_);
    d.x += first * s_.x.strides[2];
    d.y += first * s_.y.strides[2];
    d.pixels = 1;
    return d;
  }

  void run_row(const DepthwiseRow& d, float* scratch) const {
    has_curve() ? run_curve(d, scratch) : ops_.run(d);
  }

  // Returns whether the epilogue has operations that the kernel does not compute.
  bool has_curve() const {
    const EpilogueSpec& e = layer_->epilogue;
    return layer_->cells == nullptr && (e.function != nullptr || !e.slopes.empty());
  }

  // Pixels whose floats are in scratch at once.
  size_t segment() const { return std::max<size_t>(1, kSegment / channels()); }

  // Computes segments of a row as dense floats in scratch, applies the rest of the epilogue, and writes y.
  void run_curve(const DepthwiseRow& row, float* floats) const {
    const size_t first = row.begin * ops_.block, width = std::min(row.end * ops_.block, channels()) - first;
    DepthwiseRow d = row;
    d.epilogue.floats = true;
    d.epilogue.real_low = -std::numeric_limits<float>::infinity();
    d.epilogue.real_high = std::numeric_limits<float>::infinity();
    d.y_pixel = static_cast<ptrdiff_t>(width * sizeof(float));
    for (size_t p = 0; p < row.pixels; p += d.pixels) {
      const auto at = static_cast<ptrdiff_t>(p);
      d.pixels = std::min(segment(), row.pixels - p);
      d.x = row.x + at * row.x_pixel;
      d.residual = row.residual == nullptr ? nullptr : row.residual + at * row.residual_pixel;
      d.y = reinterpret_cast<uint8_t*>(floats) - first * sizeof(float);
      ops_.run(d);
      uint8_t* const y = row.y + at * row.y_pixel + first * bytes_of(s_.y.type);
      if (layer_->epilogue.curve != nullptr) {
        write_curve(floats, d.pixels, width, y, row.y_pixel);
        continue;
      }
      const RealFunction function = layer_->epilogue.function;
      if (function != nullptr) function(floats, floats, d.pixels * width);
      for (size_t i = 0; i < d.pixels; ++i) {
        scale(floats + i * width, first, width);
        write(floats + i * width, width, y + static_cast<ptrdiff_t>(i) * row.y_pixel);
      }
    }
  }

  // Applies the factor and offset of each channel.
  void scale(float* floats, size_t first, size_t n) const {
    const auto& binary = layer_->epilogue.ops->binary;
    const auto apply = [&](BinaryKind kind, const std::vector<float>& values) {
      if (values.empty()) return;
      binary[static_cast<size_t>(kind)](floats, 1, values.data() + first, 1, n, floats);
    };
    apply(BinaryKind::slope, layer_->epilogue.slopes);
    apply(BinaryKind::mul, layer_->epilogue.factors);
    apply(BinaryKind::add, layer_->epilogue.offsets);
  }

  // Applies the curve to all pixels at once. If pixels of y are not contiguous, the bytes first replace the
  // floats.
  void write_curve(float* floats, size_t pixels, size_t width, uint8_t* y, ptrdiff_t y_pixel) const {
    const bool dense = static_cast<size_t>(y_pixel) == width;
    auto* const bytes = dense ? y : reinterpret_cast<uint8_t*>(floats);
    layer_->epilogue.curve(floats, pixels * width, layer_->epilogue.curve_codes(), bytes);
    for (size_t i = 0; !dense && i < pixels; ++i) {
      std::memcpy(y + static_cast<ptrdiff_t>(i) * y_pixel, bytes + i * width, width);
    }
  }

  void write(float* floats, size_t n, uint8_t* y) const {
    if (layer_->epilogue.floats) {
      const float low = layer_->epilogue.real_low, high = layer_->epilogue.real_high;
      for (size_t c = 0; c < n; ++c) floats[c] = std::min(std::max(floats[c], low), high);
      std::memcpy(y, floats, n * sizeof(float));
    } else {
      const bool divides = layer_->epilogue.function != nullptr || layer_->epilogue.divides;
      const float scale = divides ? layer_->epilogue.scale : 1.0f;
      layer_->epilogue.ops->quantize(floats, n, 1.0f, scale, layer_->epilogue.grid(), y);
    }
  }

  // The fields that are the same for all rows.
  DepthwiseRow constant() const {
    DepthwiseRow d{};
    d.kernel_h = layer_->kernel_h;
    d.kernel_w = layer_->kernel_w;
    d.high = layer_->high;
    d.joins = layer_->is_wide;
    d.channels = static_cast<int>(channels());
    const auto number = static_cast<ptrdiff_t>(together_);
    d.x_row = static_cast<ptrdiff_t>(s_.dilations[0] * s_.x.strides[1]);
    d.x_column = static_cast<ptrdiff_t>(s_.dilations[1] * s_.x.strides[2]);
    d.x_pixel = static_cast<ptrdiff_t>(s_.strides[1] * s_.x.strides[2]) * number;
    d.pixels = pixels() / together_;
    d.packed = layer_->packed.front().bytes;
    const auto& residual = s_.residual;
    d.residual_pixel = residual ? static_cast<ptrdiff_t>(residual->strides[2]) : 0;
    d.y_pixel = static_cast<ptrdiff_t>(s_.y.strides[2]) * number;
    d.epilogue = layer_->epilogue;
    return d;
  }

  void place(const Memory& memory, size_t row, DepthwiseRow& d) const {
    const auto n = static_cast<int64_t>(row) / s_.y.sizes[1], h = static_cast<int64_t>(row) % s_.y.sizes[1];
    const int64_t top = h * s_.strides[0] - s_.pads[0], left = -int64_t{s_.pads[1]};
    d.x = s_.x.at<uint8_t>(memory) + n * s_.x.strides[0] + top * s_.x.strides[1] + left * s_.x.strides[2];
    d.y = s_.y.at<uint8_t>(memory) + n * s_.y.strides[0] + h * s_.y.strides[1];
    d.residual = nullptr;
    if (s_.residual) {
      const View& r = *s_.residual;
      d.residual = r.at<uint8_t>(memory) + n * r.strides[0] + h * r.strides[1];
    }
  }

  const std::shared_ptr<const DepthwiseLayer> layer_;
  const DepthwiseOps& ops_;
  const DepthwiseSpec s_;
  const size_t together_;  // pixels treated as one
  size_t blocks_ = 0;  // of channels
  size_t units_ = 0;   // blocks of rows
  size_t each_ = 1;    // units of a piece of work
};

}  // namespace

DepthwiseLayer::DepthwiseLayer(const DepthwiseOps& ops_, DepthwiseWeights w, EpilogueSpec spec,
                               size_t pixels_)
    : ops(ops_),
      epilogue(checked(w, std::move(spec))),
      kernel_h(w.kernel_h),
      kernel_w(w.kernel_w),
      channels(w.channels),
      high(w.high),
      is_wide(w.joins),
      pixels(pixels_) {
  std::vector<int8_t> taps;
  if (pixels > 1) {
    repeat(epilogue.correction, pixels);
    for (auto* const values : {&epilogue.multiplier, &epilogue.bias, &epilogue.gains, &epilogue.shifts,
                               &epilogue.factors, &epilogue.offsets, &epilogue.slopes}) {
      repeat(*values, pixels);
    }
    for (int t = 0; t < kernel_h * kernel_w; ++t) {
      for (size_t i = 0; i < pixels; ++i) {
        taps.insert(taps.end(), w.weight + t * channels, w.weight + (t + 1) * channels);
      }
    }
    w.weight = taps.data();
    w.channels = channels * static_cast<int>(pixels);
  }
  w.correction = epilogue.correction.data();
  w.multiplier = epilogue.multiplier.data();
  w.bias = epilogue.bias.data();
  w.gains = epilogue.gains.empty() ? nullptr : epilogue.gains.data();
  w.shifts = epilogue.shifts.data();
  packed.resize((ops.packed_bytes(w) + sizeof(Line) - 1) / sizeof(Line));
  ops.pack(w, packed.front().bytes);
  const std::vector<double> sums = sums_of(w);
  settle_ends(epilogue, sums);
  settle_curve(epilogue);
  const bool fits = *std::max_element(sums.begin(), sums.end()) < 2147483648.0;  // no sum wraps around
  epilogue.bounded = fits && epilogue.bounded;
  if (has_bounds(ops, epilogue.smooth) && !is_wide && epilogue.curve != nullptr) {
    cells = make_cells(epilogue, largest_bias(epilogue));
    epilogue.cells = cells.get();
  }
  epilogue.residual.reset();
}

// Where a pixel has fewer channels than a block, and pixels are contiguous. If their number does not divide
// the row, the last pixels are computed twice. So it is not done where y overwrites the residual, which the
// second computation would need.
size_t joined_pixels(const DepthwiseOps& ops, const DepthwiseSpec& s) {
  if (s.x.rank != 4 || s.y.rank != 4 || s.x.sizes[3] <= 0) return 1;
  const auto c = static_cast<size_t>(s.x.sizes[3]), unit = bytes_of(s.y.type);
  const size_t number = ops.block / std::gcd(ops.block, c);
  const auto dense = [&](const View& v, size_t bytes) {
    return v.strides[2] == static_cast<int64_t>(c * bytes);
  };
  const bool pays = c < ops.block && s.strides[1] == 1 && s.y.sizes[2] >= static_cast<int64_t>(number);
  return pays && dense(s.x, 1) && dense(s.y, unit) && !s.residual ? number : 1;
}

std::unique_ptr<Step> make_depthwise(std::shared_ptr<const DepthwiseLayer> layer, const DepthwiseSpec& spec) {
  return std::make_unique<Depthwise>(std::move(layer), spec);
}

}  // namespace intact
