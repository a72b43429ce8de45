#include "steps/dynamic_depthwise.h"

#include <algorithm>
#include <cstring>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/lines.h"
#include "steps/common/pixels.h"

namespace intact {
namespace {

int64_t parts_of(int64_t n, int64_t part) { return n / part + (n % part != 0 ? 1 : 0); }

// The scratch of one thread.
struct Room {
  const uint8_t** x;
  float** y;
  int32_t* starts;
  float* scales;
  uint8_t* zeros;
};

class DynamicDepthwiseStep final : public Step {
 public:
  DynamicDepthwiseStep(const DynamicDepthwiseOps& ops, const DynamicDepthwiseSpec& s)
      : ops_(ops), s_(s), channels_(s.x.sizes[3]) {
    check();
    taps_ = s.kernel[0] * s.kernel[1];
    pixels_ = s.y.sizes[1] * s.y.sizes[2];
    const int64_t each = std::max<int64_t>(1, taps_ * channels_);
    const int64_t wanted = static_cast<int64_t>(tuning::images::kDepthwiseProducts) / each;
    rows_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, pixels_));
    blocks_ = parts_of(pixels_, rows_);
    for (const View* v : {&s.x, &s.x_scale, &s.weights, &s.sums, &s.scales}) reads(*v);
    if (s.x_zero) reads(*s.x_zero);
    if (s.bias) reads(*s.bias);
    writes(s.y);
  }

  std::string name() const override { return name_of(&ops_); }
  size_t items() const override { return static_cast<size_t>(s_.y.sizes[0] * blocks_); }
  size_t scratch() const override { return room_at(nullptr).second; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const Room room = room_at(scratch).first;
    prepare(memory, room);
    DynamicDepthwise d{};
    d.x = room.x;
    d.taps = static_cast<size_t>(taps_);
    d.channels = static_cast<size_t>(channels_);
    d.weights = s_.weights.at<const int32_t>(memory);
    d.starts = room.starts;
    d.scales = room.scales;
    if (s_.bias) d.bias = s_.bias->at<const float>(memory);
    d.y = room.y;
    for (auto item = static_cast<int64_t>(begin); item < static_cast<int64_t>(end); ++item) {
      const int64_t image = item / blocks_, from = item % blocks_ * rows_;
      const int64_t pixels = std::min(rows_, pixels_ - from);
      for (int64_t i = 0; i < pixels; ++i) {
        room.y[i] = pixel_of(s_.y, memory, image, from + i);
        point_to_taps(memory, room, image, from + i, room.x + i * taps_);
      }
      d.pixels = static_cast<size_t>(pixels);
      s_.x.type == Type::u8 ? ops_.run_u8(d) : ops_.run_s8(d);
    }
  }

 private:
  void check() const {
    demand_images(s_);
    demand(s_.x.sizes[3] == s_.y.sizes[3], "images make images of as many channels");
    demand(0 < channels_ && channels_ < kMostElements, "there are channels");
    demand(s_.kernel[0] * s_.kernel[1] <= kMostWindow, "a window has too many taps");
    const auto values = static_cast<size_t>(channels_);
    demand_vector(s_.weights, Type::i32, values * static_cast<size_t>(s_.kernel[0] * s_.kernel[1]),
                  "a weight for each tap and channel");
    demand_vector(s_.sums, Type::i32, values, "a sum for each channel");
    demand_vector(s_.scales, Type::f32, values, "a scale for each channel");
    if (s_.bias) demand_vector(*s_.bias, Type::f32, values, "one number of a bias for each channel");
  }

  // The parts of a scratch, and the bytes of all.
  std::pair<Room, size_t> room_at(uint8_t* scratch) const {
    size_t bytes = 0;
    const auto take = [&](int64_t size) {
      uint8_t* const at = scratch == nullptr ? nullptr : scratch + bytes;
      bytes += align64(static_cast<size_t>(size));
      return at;
    };
    Room room;
    room.x = reinterpret_cast<const uint8_t**>(take(rows_ * taps_ * static_cast<int64_t>(sizeof(void*))));
    room.y = reinterpret_cast<float**>(take(rows_ * static_cast<int64_t>(sizeof(void*))));
    room.starts = reinterpret_cast<int32_t*>(take(channels_ * 4));
    room.scales = reinterpret_cast<float*>(take(channels_ * 4));
    room.zeros = take(channels_);
    return {room, bytes};
  }

  // What follows from the scale and the zero point of x.
  void prepare(const Memory& memory, const Room& room) const {
    const float scale = *s_.x_scale.at<float>(memory);
    const uint32_t zero = s_.x_zero ? *s_.x_zero->at<uint8_t>(memory) : 0;
    const auto* const sums = s_.sums.at<const int32_t>(memory);
    const auto* const scales = s_.scales.at<const float>(memory);
    for (int64_t c = 0; c < channels_; ++c) {
      room.starts[c] = static_cast<int32_t>(0u - zero * static_cast<uint32_t>(sums[c]));
      room.scales[c] = scale * scales[c];
    }
    std::memset(room.zeros, static_cast<int>(zero), static_cast<size_t>(channels_));
  }

  void point_to_taps(const Memory& memory, const Room& room, int64_t image, int64_t pixel,
                     const uint8_t** to) const {
    const View& x = s_.x;
    const int64_t top = pixel / s_.y.sizes[2] * s_.strides[0] - s_.pads[0];
    const int64_t left = pixel % s_.y.sizes[2] * s_.strides[1] - s_.pads[1];
    const uint8_t* const from = x.at<uint8_t>(memory) + image * x.strides[0];
    for (int64_t i = 0; i < s_.kernel[0]; ++i) {
      const int64_t row = top + i * s_.dilations[0];
      const bool is_inside = 0 <= row && row < x.sizes[1];
      for (int64_t j = 0; j < s_.kernel[1]; ++j) {
        const int64_t column = left + j * s_.dilations[1];
        const bool is_there = is_inside && 0 <= column && column < x.sizes[2];
        *to++ = is_there ? from + row * x.strides[1] + column * x.strides[2] : room.zeros;
      }
    }
  }

  const DynamicDepthwiseOps& ops_;
  DynamicDepthwiseSpec s_;
  int64_t channels_, taps_ = 1, pixels_ = 0, rows_ = 1, blocks_ = 0;
};

}  // namespace

std::unique_ptr<Step> make_dynamic_depthwise(const DynamicDepthwiseOps& ops,
                                             const DynamicDepthwiseSpec& spec) {
  return std::make_unique<DynamicDepthwiseStep>(ops, spec);
}

}  // namespace intact
