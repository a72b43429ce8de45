#include "steps/float_conv.h"

#include <algorithm>
#include <vector>

#include "base/tuning.h"
#include "kernels/registry.h"

namespace intact {
namespace {

using namespace tuning::floats;

constexpr int64_t kMostTaps = 1 << 20, kMostSize = int64_t{1} << 24;

void demand_floats(const View& v) {
  demand(v.type == Type::f32 && v.rank == 4 && (v.sizes[3] < 2 || v.strides[3] == 4) && v.offset % 4 == 0,
         "an image (n, h, w, c) of float32 whose channels are neighbours");
  for (int i = 0; i < 3; ++i) demand(v.strides[i] % 4 == 0, "float32 lies at multiples of 4");
  elements_of(v);
  demand(v.sizes[3] < kMostSize, "the number of channels is out of range");
}

void demand_window(const FloatConvSpec& s, int axis) {
  const int64_t kernel = s.kernel[axis], stride = s.strides[axis], dilation = s.dilations[axis];
  const int64_t origin = s.origin[axis];
  demand(0 < kernel && kernel <= kMostTaps && 0 < stride && stride <= kMostSize && 0 < dilation &&
             dilation <= kMostSize && -kMostSize < origin && origin < kMostSize,
         "kernel, stride or dilation is out of range");
  if (s.y.elements() == 0) return;
  demand(s.y.sizes[axis + 1] < kMostSize, "an image is out of range");
  const int64_t last = origin + (s.y.sizes[axis + 1] - 1) * stride + (kernel - 1) * dilation;
  demand(origin >= -s.x.halo[axis] && last < s.x.sizes[axis + 1] + s.x.halo[axis + 2],
         "windows reach beyond the input and its halo");
}

const FloatConvSpec& checked(const FloatConvSpec& s) {
  demand_floats(s.x);
  demand_floats(s.y);
  demand(s.x.sizes[0] == s.y.sizes[0], "x and y differ in their number of images");
  demand(s.groups > 0 && s.x.sizes[3] % s.groups == 0 && s.y.sizes[3] % s.groups == 0 && s.x.sizes[3] > 0,
         "channels are no multiple of the groups");
  for (const int axis : {0, 1}) demand_window(s, axis);
  demand(s.kernel[0] * s.kernel[1] <= kMostTaps, "too many taps");
  demand(s.kernel[0] * s.kernel[1] * (s.x.sizes[3] / s.groups) < (int64_t{1} << 31), "a window is too deep");
  if (s.start) demand_start(*s.start, static_cast<size_t>(s.y.sizes[3]));
  return s;
}

size_t pixels_of(const View& y) {
  return y.elements() == 0 ? 0 : static_cast<size_t>(y.sizes[0] * y.sizes[1] * y.sizes[2]);
}

// Windows as rows of a product: the address of each, and its runs of neighbouring elements.
class Windows : public Step {
 protected:
  explicit Windows(const FloatGemmOps& ops, const FloatConvSpec& spec) : ops_(ops), s_(checked(spec)) {
    depth_ = static_cast<size_t>(s_.x.sizes[3] / s_.groups);
    outputs_ = static_cast<size_t>(s_.y.sizes[3] / s_.groups);
    const int64_t pixel = s_.x.strides[2] / 4, line = s_.x.strides[1] / 4;
    joined_ = s_.groups == 1 && s_.dilations[1] == 1 && pixel == s_.x.sizes[3];
    const bool idle = s_.y.elements() == 0;  // offsets may be out of range then: the window was not checked
    for (int64_t h = 0; !idle && h < s_.kernel[0]; ++h) {
      for (int64_t w = 0; w < (joined_ ? 1 : s_.kernel[1]); ++w) {
        offsets_.push_back(static_cast<ptrdiff_t>(h * s_.dilations[0] * line + w * s_.dilations[1] * pixel));
      }
    }
    reads(s_.x);
    if (s_.start) reads(*s_.start);
    writes(s_.y);
  }

  size_t taps() const { return static_cast<size_t>(s_.kernel[0] * s_.kernel[1]); }
  size_t length() const { return depth_ * (joined_ ? static_cast<size_t>(s_.kernel[1]) : 1); }

  // The address of the window of an output pixel, and of the pixel.
  const float* window_of(const Memory& memory, int64_t n, int64_t h, int64_t w) const {
    const int64_t row = s_.origin[0] + h * s_.strides[0], column = s_.origin[1] + w * s_.strides[1];
    const int64_t at = n * s_.x.strides[0] + row * s_.x.strides[1] + column * s_.x.strides[2];
    return reinterpret_cast<const float*>(s_.x.at<uint8_t>(memory) + at);
  }
  float* pixel_of(const Memory& memory, int64_t n, int64_t h, int64_t w) const {
    const int64_t at = n * s_.y.strides[0] + h * s_.y.strides[1] + w * s_.y.strides[2];
    return reinterpret_cast<float*>(s_.y.at<uint8_t>(memory) + at);
  }

  // Fills the addresses of output pixels [first, end): x from channel `in` on, y from channel `out` on.
  void place(const Memory& memory, size_t first, size_t end, size_t in, size_t out, const float** x,
             float** y) const {
    const auto height = static_cast<size_t>(s_.y.sizes[1]), width = static_cast<size_t>(s_.y.sizes[2]);
    for (size_t pixel = first; pixel < end;) {
      const auto n = static_cast<int64_t>(pixel / width / height),
                 h = static_cast<int64_t>(pixel / width % height);
      const auto w = static_cast<int64_t>(pixel % width);
      const float* source = window_of(memory, n, h, w) + in;
      float* target = pixel_of(memory, n, h, w) + out;
      const size_t line = std::min(end, (pixel / width + 1) * width);
      for (; pixel < line; ++pixel) {
        *x++ = source;
        *y++ = target;
        source += s_.strides[1] * s_.x.strides[2] / 4;
        target += s_.y.strides[2] / 4;
      }
    }
  }

  const float* start(const Memory& memory, size_t channel) const {
    return s_.start ? s_.start->at<float>(memory) + channel : nullptr;
  }

  const FloatGemmOps& ops_;
  FloatConvSpec s_;
  size_t depth_ = 0, outputs_ = 0;  // channels of a group
  bool joined_ = false;  // the pixels of a window row are contiguous
  std::vector<ptrdiff_t> offsets_;
};

class FloatConv final : public Windows {
 public:
  FloatConv(const FloatGemmOps& ops, const FloatConvSpec& spec)
      : Windows(ops, spec),
        cut_(ops, pixels_of(s_.y), outputs_, taps() * depth_, static_cast<size_t>(s_.groups)),
        group_floats_(cut_.panels(ops.panel) * ops.panel * cut_.k) {
    demand(s_.packed.size == group_floats_ * static_cast<size_t>(s_.groups),
           "packed weights of another size, or for another kernel");
  }

  std::string name() const override { return name_of(&ops_); }
  size_t items() const override { return static_cast<size_t>(s_.groups) * cut_.items(); }
  size_t scratch() const override { return 2 * cut_.block * sizeof(void*); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    auto* const x = reinterpret_cast<const float**>(scratch);
    auto* const y = reinterpret_cast<float**>(scratch) + cut_.block;
    for (size_t item = begin; item < end; ++item) {
      const size_t group = item / cut_.items(), column = item / cut_.blocks % cut_.chunks * cut_.chunk;
      const size_t first = item % cut_.blocks * cut_.block, rows = std::min(cut_.block, cut_.rows - first);
      const size_t channel = group * outputs_ + column;
      place(memory, first, first + rows, group * depth_, channel, x, y);
      const float* const b = s_.packed.data + group * group_floats_ + column * cut_.k;
      multiply_by_parts(ops_,
                        {x, offsets_.data(), offsets_.size(), length(), 1, b, cut_.k * ops_.panel,
                         start(memory, channel), false, y, rows, std::min(cut_.chunk, outputs_ - column)});
    }
  }

 private:
  FloatCut cut_;
  size_t group_floats_;
};

// A depthwise convolution.
class FloatDepthwiseStep final : public Windows {
 public:
  FloatDepthwiseStep(const FloatGemmOps& ops, const FloatConvSpec& spec)
      : Windows(ops, spec), pixels_(pixels_of(s_.y)), channels_(static_cast<size_t>(s_.groups)) {
    demand(s_.packed.size == taps() * channels_, "one filter for each channel");
    each_ = std::max<size_t>(8, kSmallItem / 8 / s_.packed.size);
    each_ = std::min(each_, std::max<size_t>(1, pixels_));
  }

  std::string name() const override { return name_of(&ops_); }
  size_t items() const override { return (pixels_ + each_ - 1) / each_; }
  size_t scratch() const override { return 2 * each_ * sizeof(void*); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    auto* const x = reinterpret_cast<const float**>(scratch);
    auto* const y = reinterpret_cast<float**>(scratch) + each_;
    for (size_t item = begin; item < end; ++item) {
      const size_t first = item * each_, last = std::min(pixels_, first + each_);
      place(memory, first, last, 0, 0, x, y);
      ops_.depthwise({x, offsets_.data(), offsets_.size(), s_.packed.data, start(memory, 0), y, last - first,
                      channels_});
    }
  }

 private:
  size_t pixels_, channels_;
  size_t each_ = 1;  // pixels of an item
};

// One input channel and few output channels: lanes are pixels of a line, not channels. With a stride, the
// pixels of each phase are first copied to a line of their own.
class FloatFilters final : public Windows {
 public:
  static bool fits(const FloatConvSpec& s) {
    const bool few = s.x.sizes[3] == 1 && s.y.sizes[3] <= kFilterOutputs && s.y.sizes[2] >= kFilterWidth;
    return few && s.x.strides[2] == 4 && s.strides[1] <= kFilterStride && s.kernel[0] <= kFilterLines &&
           (s.kernel[1] - 1) * s.dilations[1] <= kFilterReach;
  }

  FloatFilters(const FloatGemmOps& ops, const FloatConvSpec& spec) : Windows(ops, spec) {
    demand(s_.packed.size == ops.panel * taps(), "packed weights of another size, or for another kernel");
    width_ = static_cast<size_t>(s_.y.sizes[2]);
    stride_ = static_cast<size_t>(s_.strides[1]);
    reach_ = static_cast<size_t>((s_.kernel[1] - 1) * s_.dilations[1]);
    each_ = std::clamp(kSmallItem / (taps() * outputs_), size_t{kFilterWidth}, kFilterPixels);
    pieces_ = (width_ + each_ - 1) / each_;
    pitch_ = each_ + reach_ / stride_;
    const auto lines = static_cast<size_t>(s_.kernel[0]);
    offsets_.clear();  // now in pixels
    for (size_t line = 0; line < lines; ++line) {
      for (size_t w = 0; w < static_cast<size_t>(s_.kernel[1]); ++w) {
        const size_t column = w * static_cast<size_t>(s_.dilations[1]);
        const size_t copied = (line * stride_ + column % stride_) * pitch_ + column / stride_;
        const int64_t there = static_cast<int64_t>(line) * s_.dilations[0] * (s_.x.strides[1] / 4);
        offsets_.push_back(stride_ == 1 ? there + static_cast<int64_t>(column)
                                        : static_cast<int64_t>(copied));
      }
    }
    if (stride_ > 1) copies_ = lines * stride_ * pitch_;
  }

  std::string name() const override { return name_of(&ops_); }
  size_t items() const override { return pixels_of(s_.y) / std::max<size_t>(width_, 1) * pieces_; }
  size_t scratch() const override { return (copies_ + each_) * sizeof(float); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    auto* const copies = reinterpret_cast<float*>(scratch);
    const auto height = static_cast<size_t>(s_.y.sizes[1]);
    for (size_t item = begin; item < end; ++item) {
      const size_t line = item / pieces_, first = item % pieces_ * each_;
      const size_t pixels = std::min(each_, width_ - first);
      const auto n = static_cast<int64_t>(line / height), h = static_cast<int64_t>(line % height);
      const auto w = static_cast<int64_t>(first);
      const float* x = window_of(memory, n, h, w);
      if (stride_ > 1) x = copied(x, pixels, copies);
      filter(memory, x, pixel_of(memory, n, h, w), pixels, copies + copies_);
    }
  }

 private:
  const float* copied(const float* x, size_t pixels, float* copies) const {
    const int64_t line = s_.dilations[0] * (s_.x.strides[1] / 4);
    const size_t count = pixels + reach_ / stride_;
    for (int64_t h = 0; h < s_.kernel[0]; ++h, x += line) {
      for (size_t phase = 0; phase < stride_; ++phase, copies += pitch_) {
        // The last pixels of a phase may be behind all windows.
        const size_t all = (pixels - 1) * stride_ + reach_ + 1;
        const size_t available = std::min(count, all > phase ? (all - phase + stride_ - 1) / stride_ : 0);
        for (size_t i = 0; i < available; ++i) copies[i] = x[phase + i * stride_];
      }
    }
    return copies - copies_;
  }

  void filter(const Memory& memory, const float* x, float* y, size_t pixels, float* line) const {
    const float* const starts = start(memory, 0);
    const auto step = s_.y.strides[2] / 4;
    for (size_t c = 0; c < outputs_; ++c) {
      float* const to = step == 1 ? y : line;
      ops_.filter({x, offsets_.data(), offsets_.size(), s_.packed.data + c, ops_.panel,
                   starts != nullptr ? starts[c] : 0.0f, to, pixels});
      if (step == 1) continue;
      for (size_t p = 0; p < pixels; ++p) y[static_cast<int64_t>(p) * step + static_cast<int64_t>(c)] = to[p];
    }
  }

  size_t width_ = 0, stride_ = 1, reach_ = 0;
  size_t each_ = 1, pieces_ = 1, pitch_ = 0, copies_ = 0;
};

}  // namespace

std::unique_ptr<Step> make_float_conv(const FloatGemmOps& ops, const FloatConvSpec& spec) {
  if (spec.groups > 1 && spec.x.sizes[3] == spec.groups && spec.y.sizes[3] == spec.groups) {
    return std::make_unique<FloatDepthwiseStep>(ops, spec);
  }
  if (FloatFilters::fits(spec)) return std::make_unique<FloatFilters>(ops, spec);
  return std::make_unique<FloatConv>(ops, spec);
}

}  // namespace intact
