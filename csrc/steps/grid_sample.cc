#include "steps/grid_sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/tuning.h"
#include "steps/common/lines.h"
#include "steps/common/walk.h"

namespace intact {
namespace {

using namespace tuning::indexing;

constexpr int64_t kFloat = sizeof(float);

// The ends of one axis of an image.
struct Ends {
  float low, high, range;  // where places are reflected, and the distance between the two
  float last;  // the last pixel
};

Ends ends_of(int64_t size, bool align) {
  const float last = static_cast<float>(size) - 1;
  return align ? Ends{0, last, last, last} : Ends{-0.5f, last + 0.5f, static_cast<float>(size), last};
}

float clamped(float v, float last) { return v < 0 ? 0 : v > last ? last : v == v ? v : 0; }

float reflected(float v, const Ends& e) {
  if (e.range == 0) return 0;
  const bool below = v < e.low;
  if (!below && !(v > e.high)) return v;
  const float beyond = below ? e.low - v : v - e.high;
  const float turns = std::floor(beyond / e.range);
  const float rest = beyond - turns * e.range;
  const bool even = turns - 2 * std::floor(turns * 0.5f) == 0;
  return below == even ? e.low + rest : e.high - rest;
}

constexpr int64_t kNone = INT64_MIN;

// The four pixels around a point as byte offsets in the image; kNone for pixels outside.
struct Point {
  int64_t at[4];
  float left, right, top, bottom;  // weights
};

class GridSample final : public Step {
 public:
  explicit GridSample(const GridSampleSpec& s)
      : s_(s),
        columns_(ends_of(s.x.rank == 4 ? s.x.sizes[3] : 0, s.align_corners)),
        rows_(ends_of(s.x.rank == 4 ? s.x.sizes[2] : 0, s.align_corners)) {
    for (const View* v : {&s.x, &s.grid, &s.y}) {
      demand(v->type == Type::f32 && v->rank == 4, "images and grids are float32, of four axes");
      elements_of(*v);
    }
    const auto& [n, c, h, w] = std::array{s.x.sizes[0], s.x.sizes[1], s.x.sizes[2], s.x.sizes[3]};
    demand(s.grid.sizes[3] == 2, "a point has two coordinates");
    demand(s.grid.sizes[0] == n && s.y.sizes[0] == n && s.y.sizes[1] == c,
           "images, grids and outputs differ");
    demand(s.grid.sizes[1] == s.y.sizes[2] && s.grid.sizes[2] == s.y.sizes[3], "a point for each output");
    demand(h < (1 << 24) && w < (1 << 24), "an image is too large");
    points_ = static_cast<size_t>(s.y.sizes[3]);
    chunks_ = (points_ + kPoints - 1) / kPoints;
    lines_ = static_cast<size_t>(s.y.sizes[0] * s.y.sizes[2]);
    demand(lines_ * points_ == 0 || c == 0 || (h > 0 && w > 0), "there is nothing to sample");
    if (c == 0) lines_ = 0;
    reads(s.x);
    reads(s.grid);
    writes(s.y);
  }

  std::string name() const override { return "grid_sample"; }
  size_t items() const override { return lines_ * chunks_; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const auto height = static_cast<size_t>(s_.y.sizes[2]);
    Point points[kPoints];
    for (size_t item = begin; item < end; ++item) {
      const auto from = static_cast<int64_t>(item % chunks_ * kPoints);
      const size_t line = item / chunks_;
      const auto n = static_cast<int64_t>(line / height), row = static_cast<int64_t>(line % height);
      const auto count = static_cast<size_t>(std::min<int64_t>(kPoints, s_.y.sizes[3] - from));
      const uint8_t* const grid = s_.grid.at<uint8_t>(memory) + n * s_.grid.strides[0] +
                                  row * s_.grid.strides[1] + from * s_.grid.strides[2];
      for (size_t i = 0; i < count; ++i) {
        const uint8_t* const at = grid + static_cast<int64_t>(i) * s_.grid.strides[2];
        points[i] = point(load<float>(at), load<float>(at + s_.grid.strides[3]));
      }
      const uint8_t* const x = s_.x.at<uint8_t>(memory) + n * s_.x.strides[0];
      uint8_t* const y =
          s_.y.at<uint8_t>(memory) + n * s_.y.strides[0] + row * s_.y.strides[2] + from * s_.y.strides[3];
      if (s_.x.strides[1] == kFloat) {
        for (size_t i = 0; i < count; ++i) pixel(points[i], x, y + static_cast<int64_t>(i) * s_.y.strides[3]);
      } else {
        planes(points, count, x, y);
      }
    }
  }

 private:
  // All channels of one point, where channels are neighbours in memory.
  void pixel(const Point& p, const uint8_t* x, uint8_t* y) const {
    static constexpr float kNothing = 0;
    const uint8_t* from[4];
    int64_t step[4];
    for (int k = 0; k < 4; ++k) {
      from[k] = p.at[k] == kNone ? reinterpret_cast<const uint8_t*>(&kNothing) : x + p.at[k];
      step[k] = p.at[k] == kNone ? 0 : kFloat;
    }
    for (int64_t c = 0; c < s_.x.sizes[1]; ++c) {
      float v[4];
      for (int k = 0; k < 4; ++k) v[k] = load<float>(from[k] + c * step[k]);
      store(y + c * s_.y.strides[1], value(p, v));
    }
  }

  // All points of one channel after the other.
  void planes(const Point* points, size_t count, const uint8_t* x, uint8_t* y) const {
    for (int64_t c = 0; c < s_.x.sizes[1]; ++c) {
      const uint8_t* const plane = x + c * s_.x.strides[1];
      uint8_t* const to = y + c * s_.y.strides[1];
      for (size_t i = 0; i < count; ++i) {
        float v[4];
        for (int k = 0; k < 4; ++k)
          v[k] = points[i].at[k] == kNone ? 0 : load<float>(plane + points[i].at[k]);
        store(to + static_cast<int64_t>(i) * s_.y.strides[3], value(points[i], v));
      }
    }
  }

  float value(const Point& p, const float (&v)[4]) const {
    if (s_.mode == GridMode::nearest) return v[0];
    const float above = p.left * v[0] + p.right * v[1], below = p.left * v[2] + p.right * v[3];
    return p.top * above + p.bottom * below;
  }

  float placed(float g, const Ends& e) const {
    const float v = s_.align_corners ? (g + 1) * 0.5f * e.last : ((g + 1) * (e.last + 1) - 1) * 0.5f;
    const float whole = s_.mode == GridMode::nearest ? std::nearbyint(v) : v;
    if (s_.padding == GridPadding::border) return clamped(whole, e.last);
    const bool zeros = s_.padding == GridPadding::zeros;
    const float within = zeros ? whole : reflected(whole, e), none = zeros ? -2.0f : 0.0f;
    return within == within ? std::min(std::max(within, -2.0f), e.last + 2) : none;
  }

  // The index of the pixel at an integral place; -1 for a NaN and for places outside.
  int64_t index(float v, const Ends& e) const {
    if (s_.padding != GridPadding::zeros) v = clamped(v, e.last);
    return v >= 0 && v <= e.last ? static_cast<int64_t>(v) : -1;
  }

  Point point(float gx, float gy) const {
    const float x = placed(gx, columns_), y = placed(gy, rows_);
    const float x0 = std::floor(x), y0 = std::floor(y);
    const int64_t columns[2] = {index(x0, columns_), index(x0 + 1, columns_)};
    const int64_t rows[2] = {index(y0, rows_), index(y0 + 1, rows_)};
    Point p;
    for (int k = 0; k < 4; ++k) {
      const int64_t r = rows[k / 2], c = columns[k % 2];
      p.at[k] = r < 0 || c < 0 ? kNone : r * s_.x.strides[2] + c * s_.x.strides[3];
    }
    p.right = x - x0;
    p.left = x0 + 1 - x;
    p.bottom = y - y0;
    p.top = y0 + 1 - y;
    return p;
  }

  GridSampleSpec s_;
  Ends columns_, rows_;
  size_t points_, chunks_, lines_;
};

}  // namespace

std::unique_ptr<Step> make_grid_sample(const GridSampleSpec& spec) {
  return std::make_unique<GridSample>(spec);
}

}  // namespace intact
