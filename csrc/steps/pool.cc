#include "steps/pool.h"

#include <algorithm>
#include <unordered_map>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/views.h"

namespace intact {
namespace {

using namespace tuning::images;

// The taps of one window along one axis that are inside the image, and where the first one reads.
struct Span {
  int64_t first, last;
  int64_t from;
  int64_t padded;  // taps within the image and its padding

  int64_t taps() const { return last - first; }
  bool operator==(const Span& o) const { return first == o.first && last == o.last; }
};

// The number of k >= 0 with from + k * step < limit, at most `most`.
int64_t below(int64_t from, int64_t step, int64_t limit, int64_t most) {
  return from >= limit ? 0 : std::min(most, (limit - from + step - 1) / step);
}

std::vector<Span> spans(const PoolSpec& s, int axis) {
  const int64_t size = s.x.sizes[axis + 1], step = s.dilations[axis], kernel = s.kernel[axis];
  for (const int64_t v : {step, kernel, s.strides[axis]}) {
    demand(0 < v && v < (1 << 22), "kernel, stride or dilation is out of range");
  }
  for (const int64_t pad : {s.pads[axis], s.pads[axis + 2]}) {
    demand(0 <= pad && pad < kMostElements, "a padding is out of range");
  }
  demand(s.y.sizes[axis + 1] < (1 << 22), "an image is too large");
  std::vector<Span> all;
  for (int64_t i = 0; i < s.y.sizes[axis + 1]; ++i) {
    const int64_t from = i * s.strides[axis] - s.pads[axis];
    const int64_t first = below(from, step, 0, kernel), last = below(from, step, size, kernel);
    const int64_t within = below(from, step, size + s.pads[axis + 2], kernel);
    all.push_back({first, last, first == last ? 0 : from + first * step, within});
  }
  return all;
}

class Pool : public Step {
 public:
  Pool(const PoolOps& ops, const PoolSpec& s) : ops_(ops), s_(s) {
    demand_image(s.x, "x is an image of bytes (n, h, w, c)");
    demand_image(s.y, "y is an image of bytes (n, h, w, c)");
    for (const View* v : {&s.x, &s.y}) elements_of(*v);
    demand(s.x.sizes[0] == s.y.sizes[0] && s.x.sizes[3] == s.y.sizes[3], "x and y differ in n or c");
    down_ = spans(s, 0);
    across_ = spans(s, 1);
    int64_t high = 0, wide = 0;
    for (const Span& a : down_) high = std::max(high, a.taps());
    for (const Span& a : across_) wide = std::max(wide, a.taps());
    taps_ = static_cast<size_t>(high) * static_cast<size_t>(wide);
    demand(taps_ <= kMostPoolTaps, "too many taps");
    const size_t channels = static_cast<size_t>(s.x.sizes[3]);
    chunks_ = (channels + kChannels - 1) / kChannels;
    units_ = across_.empty() ? 0 : static_cast<size_t>(s.y.sizes[0]) * down_.size() * chunks_;
    const size_t cost = across_.size() * taps_ * std::min(channels, kChannels);
    each_ = std::max<size_t>(1, kPieceTaps / std::max<size_t>(1, cost));
    reads(s.x);
    writes(s.y);
  }

  size_t items() const override { return (units_ + each_ - 1) / each_; }
  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return taps_ * sizeof(ptrdiff_t); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    auto* offsets = reinterpret_cast<ptrdiff_t*>(scratch);
    const size_t last = std::min(end * each_, units_);
    for (size_t unit = begin * each_; unit < last; ++unit) {
      const size_t row = unit / chunks_, n = row / down_.size(), h = row % down_.size();
      const size_t channel = unit % chunks_ * kChannels;
      PoolWindow w{};
      w.channels = std::min(kChannels, static_cast<size_t>(s_.x.sizes[3]) - channel);
      w.offsets = offsets;
      const uint8_t* x = s_.x.at<uint8_t>(memory) + static_cast<int64_t>(n) * s_.x.strides[0] + channel;
      uint8_t* y = s_.y.at<uint8_t>(memory) + static_cast<int64_t>(n) * s_.y.strides[0] +
                   static_cast<int64_t>(h) * s_.y.strides[1] + channel;
      columns(w, h, x, y, offsets);
    }
  }

 protected:
  // Pools windows [from, to) of a row, which have the same taps.
  virtual void same(const PoolWindow& window, size_t h, size_t from, size_t to, uint8_t* y) const = 0;

  const PoolOps& ops_;
  PoolSpec s_;
  std::vector<Span> down_, across_;

 private:
  void columns(PoolWindow w, size_t h, const uint8_t* x, uint8_t* y, ptrdiff_t* offsets) const {
    for (size_t from = 0; from < across_.size();) {
      size_t to = from + 1;
      while (to < across_.size() && across_[to] == across_[from]) ++to;
      const Span &a = down_[h], &b = across_[from];
      w.taps = 0;
      for (int64_t i = 0; i < a.taps(); ++i) {
        for (int64_t j = 0; j < b.taps(); ++j) {
          offsets[w.taps++] = static_cast<ptrdiff_t>(i * s_.dilations[0] * s_.x.strides[1] +
                                                     j * s_.dilations[1] * s_.x.strides[2]);
        }
      }
      w.x = x + a.from * s_.x.strides[1] + b.from * s_.x.strides[2];
      same(w, h, from, to, y + static_cast<int64_t>(from) * s_.y.strides[2]);
      from = to;
    }
  }

  size_t taps_ = 0;    // taps of the largest window
  size_t chunks_ = 0;  // of channels
  size_t units_ = 0;   // chunks of rows
  size_t each_ = 1;    // units of a piece of work
};

class MaxPool final : public Pool {
 public:
  MaxPool(const PoolOps& ops, const PoolSpec& s) : Pool(ops, s) {
    for (const auto& axis : {down_, across_}) {
      for (const Span& a : axis) demand(a.taps() > 0, "a window holds nothing but padding");
    }
  }

 private:
  void same(const PoolWindow& w, size_t, size_t from, size_t to, uint8_t* y) const override {
    ops_.max(w, to - from, static_cast<ptrdiff_t>(s_.strides[1] * s_.x.strides[2]), y,
             static_cast<ptrdiff_t>(s_.y.strides[2]));
  }
};

class MeanPool final : public Pool {
 public:
  MeanPool(const PoolOps& ops, const PoolSpec& s, const MeanSpec& m) : Pool(ops, s), m_(m) {
    demand(is_sound(m.grid), "the output's grid is not within bytes");
    demand(-256 <= m.zero && m.zero <= 511, "a zero point is out of range");
    const auto sound = [](float scale) { return scale > 0 && std::isfinite(scale); };
    demand(sound(m.x_scale) && sound(m.y_scale), "a scale is not positive and finite");
    std::unordered_map<float, PoolMean>
        by_count;  // means by their number of taps: long rows have few different ones
    for (const Span& a : down_) {
      for (const Span& b : across_) means_.push_back(mean_of(a, b, by_count));
    }
  }

 private:
  // The mean of a window, shared with windows of as many taps.
  PoolMean mean_of(const Span& a, const Span& b, std::unordered_map<float, PoolMean>& by_count) {
    const int64_t count = m_.include_pads ? a.padded * b.padded : a.taps() * b.taps();
    demand(count > 0, "a window counts nothing");
    const auto [place, is_new] = by_count.try_emplace(static_cast<float>(count));
    if (is_new) place->second = pool_mean(m_.x_scale, count, m_.y_scale, m_.zero, m_.grid);
    return place->second;
  }

  void same(const PoolWindow& window, size_t h, size_t from, size_t to, uint8_t* y) const override {
    PoolWindow w = window;
    for (size_t i = from; i < to; ++i) {
      ops_.mean(w, means_[h * across_.size() + i], y);
      w.x += s_.strides[1] * s_.x.strides[2];
      y += s_.y.strides[2];
    }
  }

  MeanSpec m_;
  std::vector<PoolMean> means_;  // one per window of a plane
};

// Computes rows of y, tap after tap, over the channels of each pixel.
class FloatMaxPool final : public Step {
 public:
  FloatMaxPool(const FloatOps& ops, const PoolSpec& s)
      : ops_(ops), s_(s), down_(spans(s, 0)), across_(spans(s, 1)) {
    for (const View* v : {&s.x, &s.y}) {
      const bool dense = v->rank == 4 && (v->sizes[3] < 2 || v->strides[3] == 4);
      demand(v->type == Type::f32 && dense, "x and y are images of float32 (n, h, w, c)");
      elements_of(*v);
    }
    demand(s.x.sizes[0] == s.y.sizes[0] && s.x.sizes[3] == s.y.sizes[3], "x and y differ in n or c");
    int64_t most = 0;
    for (const auto& axis : {down_, across_}) {
      for (const Span& a : axis) {
        demand(a.taps() > 0, "a window holds nothing but padding");
        most = std::max(most, a.taps());
      }
    }
    const auto channels = static_cast<size_t>(s.y.sizes[3]);
    rows_ = across_.empty() || channels == 0 ? 0 : static_cast<size_t>(s.y.sizes[0]) * down_.size();
    each_ = std::max<size_t>(1, kPieceTaps / 4 / std::max<size_t>(1, across_.size() * channels * most));
    reads(s.x);
    writes(s.y);
  }

  size_t items() const override { return (rows_ + each_ - 1) / each_; }
  std::string name() const override { return name_of(&ops_); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const size_t last = std::min(end * each_, rows_);
    for (size_t row = begin * each_; row < last; ++row) {
      const auto n = static_cast<int64_t>(row / down_.size()), h = static_cast<int64_t>(row % down_.size());
      const Span& a = down_[static_cast<size_t>(h)];
      const uint8_t* const x = s_.x.at<uint8_t>(memory) + n * s_.x.strides[0] + a.from * s_.x.strides[1];
      uint8_t* y = s_.y.at<uint8_t>(memory) + n * s_.y.strides[0] + h * s_.y.strides[1];
      for (const Span& b : across_) {
        window(a, b, x + b.from * s_.x.strides[2], reinterpret_cast<float*>(y));
        y += s_.y.strides[2];
      }
    }
  }

 private:
  void window(const Span& a, const Span& b, const uint8_t* x, float* y) const {
    const auto channels = static_cast<size_t>(s_.y.sizes[3]);
    const auto larger = ops_.binary[static_cast<size_t>(BinaryKind::max)];
    for (int64_t i = 0; i < a.taps(); ++i) {
      const uint8_t* tap = x + i * s_.dilations[0] * s_.x.strides[1];
      for (int64_t j = 0; j < b.taps(); ++j, tap += s_.dilations[1] * s_.x.strides[2]) {
        const auto* const from = reinterpret_cast<const float*>(tap);
        if (i == 0 && j == 0) {
          std::copy(from, from + channels, y);
        } else {
          larger(y, 1, from, 1, channels, y);
        }
      }
    }
  }

  const FloatOps& ops_;
  PoolSpec s_;
  std::vector<Span> down_, across_;
  size_t rows_ = 0, each_ = 1;
};

}  // namespace

std::unique_ptr<Step> make_float_max_pool(const FloatOps& ops, const PoolSpec& spec) {
  return std::make_unique<FloatMaxPool>(ops, spec);
}

std::unique_ptr<Step> make_max_pool(const PoolOps& ops, const PoolSpec& spec) {
  return std::make_unique<MaxPool>(ops, spec);
}

std::unique_ptr<Step> make_mean_pool(const PoolOps& ops, const PoolSpec& spec, const MeanSpec& mean) {
  return std::make_unique<MeanPool>(ops, spec, mean);
}

}  // namespace intact
