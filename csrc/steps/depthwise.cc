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

void demand_window(const DepthwiseSpec& s, int axis) {
  const auto [x, kernel, stride, dilation] =
      std::array<int64_t, 4>{s.x.sizes[axis + 1], axis == 0 ? s.weights.kernel_h : s.weights.kernel_w,
                             s.strides[axis], s.dilations[axis]};
  demand(0 < kernel && kernel <= kMostTaps && 0 < stride && stride < kMostElements && 0 < dilation &&
             dilation < kMostElements / kMostTaps,
         "kernel, stride or dilation is out of range");
  const int64_t first = -int64_t{s.pads[axis]};
  const int64_t last = first + (s.y.sizes[axis + 1] - 1) * stride + (kernel - 1) * dilation;
  demand(-s.x.halo[axis] <= first && last < x + s.x.halo[axis + 2], "a tap leaves the halo");
}

// The largest magnitude that the sum of each channel can have.
std::vector<double> sums_of(const DepthwiseSpec& s) {
  const DepthwiseWeights& w = s.weights;
  std::vector<double> sums;
  for (int c = 0; c < w.channels; ++c) {
    double sum = std::abs(static_cast<double>(s.epilogue.correction[c]));
    const double most = s.low ? 65535.0 : 255.0;
    for (int t = 0; t < w.kernel_h * w.kernel_w; ++t) sum += most * std::abs(w.weight[t * w.channels + c]);
    sums.push_back(sum);
  }
  return sums;
}

class Depthwise final : public Step {
 public:
  Depthwise(const DepthwiseOps& ops, const DepthwiseSpec& s)
      : ops_(ops), s_(s), kernel_h_(s.weights.kernel_h), kernel_w_(s.weights.kernel_w), high_(s.x.high) {
    check();
    if (s_.low) high_ = std::max<int>(high_, s_.low->high);
    s_.weights.high = high_;
    s_.weights.joins = s_.low.has_value();
    join();
    s_.weights.correction = s_.epilogue.correction.data();
    s_.weights.multiplier = s_.epilogue.multiplier.data();
    s_.weights.bias = s_.epilogue.bias.data();
    packed_.resize((ops.packed_bytes(s_.weights) + sizeof(Line) - 1) / sizeof(Line));
    ops.pack(s_.weights, packed_.front().bytes);
    const std::vector<double> sums = sums_of(s_);
    settle_ends(s_.epilogue, sums);
    settle_curve(s_.epilogue);
    const bool fits = *std::max_element(sums.begin(), sums.end()) < 2147483648.0;  // no sum wraps around
    s_.epilogue.bounded = fits && s_.epilogue.bounded;
    if (has_bounds() && !s_.low && s_.epilogue.curve != nullptr) {
      cells_ = make_cells(s_.epilogue, largest_bias(s_.epilogue));
      s_.epilogue.cells = cells_.get();
    }
    s_.weights = {};
    blocks_ = (channels() + ops.block - 1) / ops.block;
    const auto size = [&](int axis) { return static_cast<size_t>(s_.y.sizes[axis]); };
    units_ = size(2) == 0 ? 0 : size(0) * size(1) * blocks_;
    const size_t products = size(2) / together_ * ops.block * static_cast<size_t>(kernel_h_ * kernel_w_);
    each_ = std::max<size_t>(1, kDepthwiseProducts / std::max<size_t>(1, products));
    const size_t slack = channels() % ops.block == 0 ? 0 : ops.slack;
    reads(s.x, slack);
    if (s_.low) reads(*s_.low, slack);
    if (s.epilogue.residual) reads(*s.epilogue.residual, slack);
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
    demand(0 < s_.x.sizes[3] && s_.x.sizes[3] < (1 << 24), "the number of channels is out of range");
    demand(s_.x.sizes[3] == s_.weights.channels, "one filter for each channel");
    for (int axis : {0, 1}) demand_window(s_, axis);
    demand(kernel_h_ * kernel_w_ <= kMostTaps, "too many taps");
    check_epilogue(s_.epilogue, s_.y, s_.weights.channels);
    demand(!has_curve() || s_.epilogue.ops != nullptr, "a function or slopes without their kernel");
    if (!s_.low) return;
    demand_image(*s_.low, "x is an image of bytes (n, h, w, c)");
    demand_same_sizes(*s_.low, s_.x);
    demand(s_.low->strides == s_.x.strides && s_.low->halo == s_.x.halo, "low bytes lie as the high ones do");
  }

  // Returns whether the kernel computes codes of this function by bounds (gemm/cells.h).
  bool has_bounds() const {
    const SmoothFunction* const f = s_.epilogue.smooth;
    return ops_.bounds == FunctionBounds::all ||
           (ops_.bounds == FunctionBounds::with_end && f != nullptr && f->end > 0);
  }

  static void demand_pixels(const View& y) {
    const auto unit = static_cast<int64_t>(bytes_of(y.type));
    demand(y.rank == 4 && (y.sizes[3] < 2 || y.strides[3] == unit), "y is an image (n, h, w, c)");
  }

  size_t pixels() const { return static_cast<size_t>(s_.y.sizes[2]); }
  size_t channels() const { return static_cast<size_t>(s_.x.sizes[3]) * together_; }

  // Treats neighbouring pixels as one with more channels, where a pixel has fewer channels than a block and
  // pixels are contiguous. If their number does not divide the row, the last pixels are computed twice. So
  // it is not done where y overwrites the residual, which the second computation would need.
  void join() {
    const auto c = static_cast<size_t>(s_.x.sizes[3]), unit = bytes_of(s_.y.type);
    const size_t number = ops_.block / std::gcd(ops_.block, c);
    const auto dense = [&](const View& v, size_t bytes) {
      return v.strides[2] == static_cast<int64_t>(c * bytes);
    };
    const bool pays = c < ops_.block && s_.strides[1] == 1 && pixels() >= number;
    if (!pays || !dense(s_.x, 1) || !dense(s_.y, unit) || s_.epilogue.residual) return;
    together_ = number;
    EpilogueSpec& e = s_.epilogue;
    repeat(e.correction);
    for (auto* const values :
         {&e.multiplier, &e.bias, &e.gains, &e.shifts, &e.factors, &e.offsets, &e.slopes}) {
      repeat(*values);
    }
    for (int t = 0; t < kernel_h_ * kernel_w_; ++t) {
      for (size_t i = 0; i < number; ++i) {
        taps_.insert(taps_.end(), s_.weights.weight + t * c, s_.weights.weight + (t + 1) * c);
      }
    }
    s_.weights.weight = taps_.data();
    s_.weights.channels = static_cast<int>(c * number);
  }

  template <class T>
  void repeat(std::vector<T>& values) const {
    const size_t n = values.size();
    for (size_t i = n; i < n * together_; ++i) values.push_back(values[i - n]);
  }

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
    const EpilogueSpec& e = s_.epilogue;
    const bool more = e.function != nullptr || !e.slopes.empty() || !e.gains.empty();
    return cells_ == nullptr && more;
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
      const uint8_t* const residual =
          row.residual == nullptr ? nullptr : row.residual + at * row.residual_pixel;
      d.residual = has_gain() ? nullptr : residual;
      d.y = reinterpret_cast<uint8_t*>(floats) - first * sizeof(float);
      ops_.run(d);
      for (size_t i = 0; has_gain() && i < d.pixels; ++i) {
        const auto beside = static_cast<ptrdiff_t>(i) * row.residual_pixel + static_cast<ptrdiff_t>(first);
        gain(floats + i * width, first, width, residual == nullptr ? nullptr : residual + beside);
      }
      uint8_t* const y = row.y + at * row.y_pixel + first * bytes_of(s_.y.type);
      if (s_.epilogue.curve != nullptr) {
        write_curve(floats, d.pixels, width, y, row.y_pixel);
        continue;
      }
      const RealFunction function = s_.epilogue.function;
      if (function != nullptr) function(floats, floats, d.pixels * width);
      for (size_t i = 0; i < d.pixels; ++i) {
        scale(floats + i * width, first, width);
        write(floats + i * width, width, y + static_cast<ptrdiff_t>(i) * row.y_pixel);
      }
    }
  }

  bool has_gain() const { return !s_.epilogue.gains.empty(); }

  // Applies gain, shift and residual.
  void gain(float* floats, size_t first, size_t n, const uint8_t* residual) const {
    const EpilogueSpec& e = s_.epilogue;
    for (size_t c = 0; c < n; ++c) {
      floats[c] = floats[c] * e.gains[first + c];
      floats[c] = floats[c] + e.shifts[first + c];
      if (residual == nullptr) continue;
      floats[c] = floats[c] + static_cast<float>(residual[c] - e.residual_zero_point) * e.residual_multiplier;
    }
  }

  // Applies the factor and offset of each channel.
  void scale(float* floats, size_t first, size_t n) const {
    const auto& binary = s_.epilogue.ops->binary;
    const auto apply = [&](BinaryKind kind, const std::vector<float>& values) {
      if (values.empty()) return;
      binary[static_cast<size_t>(kind)](floats, 1, values.data() + first, 1, n, floats);
    };
    apply(BinaryKind::slope, s_.epilogue.slopes);
    apply(BinaryKind::mul, s_.epilogue.factors);
    apply(BinaryKind::add, s_.epilogue.offsets);
  }

  // Applies the curve to all pixels at once. If pixels of y are not contiguous, the bytes first replace the
  // floats.
  void write_curve(float* floats, size_t pixels, size_t width, uint8_t* y, ptrdiff_t y_pixel) const {
    const bool dense = static_cast<size_t>(y_pixel) == width;
    auto* const bytes = dense ? y : reinterpret_cast<uint8_t*>(floats);
    s_.epilogue.curve(floats, pixels * width, s_.epilogue.curve_codes(), bytes);
    for (size_t i = 0; !dense && i < pixels; ++i) {
      std::memcpy(y + static_cast<ptrdiff_t>(i) * y_pixel, bytes + i * width, width);
    }
  }

  void write(float* floats, size_t n, uint8_t* y) const {
    if (s_.epilogue.floats) {
      const float low = s_.epilogue.real_low, high = s_.epilogue.real_high;
      for (size_t c = 0; c < n; ++c) floats[c] = std::min(std::max(floats[c], low), high);
      std::memcpy(y, floats, n * sizeof(float));
    } else {
      const bool divides = s_.epilogue.function != nullptr || s_.epilogue.divides;
      const float scale = divides ? s_.epilogue.scale : 1.0f;
      s_.epilogue.ops->quantize(floats, n, 1.0f, scale, s_.epilogue.grid(), y);
    }
  }

  // The fields that are the same for all rows.
  DepthwiseRow constant() const {
    DepthwiseRow d{};
    d.kernel_h = kernel_h_;
    d.kernel_w = kernel_w_;
    d.high = high_;
    d.joins = s_.low.has_value();
    d.channels = static_cast<int>(channels());
    const auto number = static_cast<ptrdiff_t>(together_);
    d.x_row = static_cast<ptrdiff_t>(s_.dilations[0] * s_.x.strides[1]);
    d.x_column = static_cast<ptrdiff_t>(s_.dilations[1] * s_.x.strides[2]);
    d.x_pixel = static_cast<ptrdiff_t>(s_.strides[1] * s_.x.strides[2]) * number;
    d.pixels = pixels() / together_;
    d.packed = packed_.front().bytes;
    const auto& residual = s_.epilogue.residual;
    d.residual_pixel = residual ? static_cast<ptrdiff_t>(residual->strides[2]) : 0;
    d.y_pixel = static_cast<ptrdiff_t>(s_.y.strides[2]) * number;
    d.epilogue = s_.epilogue;
    return d;
  }

  void place(const Memory& memory, size_t row, DepthwiseRow& d) const {
    const auto n = static_cast<int64_t>(row) / s_.y.sizes[1], h = static_cast<int64_t>(row) % s_.y.sizes[1];
    const int64_t top = h * s_.strides[0] - s_.pads[0], left = -int64_t{s_.pads[1]};
    d.x = s_.x.at<uint8_t>(memory) + n * s_.x.strides[0] + top * s_.x.strides[1] + left * s_.x.strides[2];
    d.y = s_.y.at<uint8_t>(memory) + n * s_.y.strides[0] + h * s_.y.strides[1];
    d.residual = nullptr;
    if (s_.epilogue.residual) {
      const View& r = *s_.epilogue.residual;
      d.residual = r.at<uint8_t>(memory) + n * r.strides[0] + h * r.strides[1];
    }
  }

  struct alignas(64) Line {
    uint8_t bytes[64];
  };

  const DepthwiseOps& ops_;
  DepthwiseSpec s_;
  int kernel_h_, kernel_w_, high_;
  std::vector<Line> packed_;
  std::unique_ptr<const FunctionCells> cells_;  // nullptr where the kernel uses none
  size_t together_ = 1;  // pixels treated as one
  std::vector<int8_t> taps_;  // weights, repeated for these
  size_t blocks_ = 0;  // of channels
  size_t units_ = 0;   // blocks of rows
  size_t each_ = 1;    // units of a piece of work
};

}  // namespace

std::unique_ptr<Step> make_depthwise(const DepthwiseOps& ops, const DepthwiseSpec& spec) {
  return std::make_unique<Depthwise>(ops, spec);
}

}  // namespace intact
