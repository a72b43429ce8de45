#include "steps/dynamic_conv.h"

#include <algorithm>
#include <cstring>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/block_linear.h"
#include "steps/common/block_rows.h"
#include "steps/common/lines.h"
#include "steps/common/pixels.h"

namespace intact {
namespace {

constexpr auto kPanel = static_cast<int64_t>(kBlockPanel);

int64_t parts_of(int64_t n, int64_t part) { return n / part + (n % part != 0 ? 1 : 0); }

// The scratch of one thread.
struct Room {
  uint8_t* windows;  // of a group
  int8_t* codes;
  int32_t *negatives, *x_zeros;
  float *x_scales, *y;
  uint8_t* kernel;
};

class DynamicConv final : public Step {
 public:
  DynamicConv(const BlockGemmOps& ops, const DynamicConvSpec& s)
      : ops_(ops),
        s_(s),
        in_(s.groups > 0 ? s.x.sizes[3] / s.groups : 0),
        out_(s.groups > 0 ? s.y.sizes[3] / s.groups : 0),
        cut_(window_size(s, in_), s.kernel[0] * s.kernel[1] * in_, s.kernel[0] * s.kernel[1] * in_) {
    check();
    panels_ = parts_of(out_, kPanel);
    demand_weights();
    pixels_ = s.y.sizes[1] * s.y.sizes[2];
    rows_ = dynamic_conv_rows(pixels_);
    blocks_ = parts_of(pixels_, rows_);
    cut_panels();
    for (const View* v : {&s.x, &s.x_scale, &s.weight, &s.scales}) reads(*v);
    for (const std::optional<View>* v : {&s.x_zero, &s.zeros, &s.sums, &s.bias}) {
      if (*v) reads(**v);
    }
    writes(s.y);
  }

  std::string name() const override { return name_of(&ops_); }
  size_t items() const override { return static_cast<size_t>(s_.y.sizes[0] * s_.groups * blocks_ * chunks_); }
  size_t scratch() const override { return room_at(nullptr).second; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const Room room = room_at(scratch).first;
    int64_t last = -1;
    for (auto item = static_cast<int64_t>(begin); item < static_cast<int64_t>(end); ++item) {
      const int64_t windows = item / chunks_, block = windows % blocks_, rest = windows / blocks_;
      const int64_t group = rest % s_.groups, image = rest / s_.groups, from = block * rows_;
      const int64_t rows = std::min(rows_, pixels_ - from);
      if (windows != last) lay(memory, room, image, group, from, rows);
      last = windows;
      multiply(memory, room, group, item % chunks_ * chunk_, image, from, rows);
    }
  }

 private:
  static int64_t window_size(const DynamicConvSpec& s, int64_t in) {
    demand_taps(s);
    demand(0 < in && in < kMostHop, "a group has channels");
    return s.kernel[0] * s.kernel[1] * in;
  }

  void check() const {
    demand_images(s_);
    demand(s_.groups > 0 && out_ > 0, "there are groups, and outputs of each");
    demand(in_ * s_.groups == s_.x.sizes[3] && out_ * s_.groups == s_.y.sizes[3], "groups are whole");
  }

  void demand_weights() const {
    const auto all = static_cast<size_t>(panels_ * s_.groups), values = all * kBlockPanel;
    demand(panels_ * s_.groups < kMostElements, "there are too many outputs");
    demand_vector(s_.weight, Type::u8, all * static_cast<size_t>(cut_.units) * 128, "packed codes");
    demand_vector(s_.scales, Type::f32, values, "a scale for each output");
    if (s_.zeros) demand_vector(*s_.zeros, Type::u8, values, "a zero point for each output");
    if (s_.bias) demand_vector(*s_.bias, Type::f32, values, "one number of a bias for each output");
    demand(s_.sums.has_value() == (s_.x.type == Type::u8), "codes without a sign need sums of weights");
    if (s_.sums) demand_vector(*s_.sums, Type::i32, values, "a sum for each output");
  }

  // Few pixels leave threads without work unless panels are shared too.
  void cut_panels() {
    using namespace tuning::block_products;
    const auto together = static_cast<int64_t>(ops_.panels);
    const int64_t wanted = parts_of(kLeastItems, std::max<int64_t>(1, s_.y.sizes[0] * s_.groups * blocks_));
    chunk_ = std::max<int64_t>(1, parts_of(parts_of(panels_, wanted), together) * together);
    chunks_ = parts_of(panels_, chunk_);
  }

  // The parts of a scratch, and the bytes of all.
  std::pair<Room, size_t> room_at(uint8_t* scratch) const {
    const auto groups = static_cast<size_t>(parts_of(rows_, static_cast<int64_t>(ops_.group)));
    const size_t rows = groups * ops_.group, row = static_cast<size_t>(cut_.row_bytes());
    size_t bytes = 0;
    const auto take = [&](size_t size) {
      uint8_t* const at = scratch == nullptr ? nullptr : scratch + bytes;
      bytes += align64(size);
      return at;
    };
    Room room;
    room.windows = take(ops_.group * row);
    room.codes = reinterpret_cast<int8_t*>(take(rows * row));
    room.negatives = reinterpret_cast<int32_t*>(take(rows * 4));
    room.x_zeros = reinterpret_cast<int32_t*>(take(rows * 4));
    room.x_scales = reinterpret_cast<float*>(take(rows * 4));
    room.y = reinterpret_cast<float*>(take(is_even() ? 0 : rows * static_cast<size_t>(chunk_) * 64));
    room.kernel = take(ops_.scratch * static_cast<size_t>(cut_.units));
    return {room, bytes};
  }

  // Whether the pixels of an image lie at one distance.
  bool is_even() const {
    return s_.y.sizes[1] < 2 || s_.y.sizes[2] < 1 || s_.y.strides[1] == s_.y.sizes[2] * s_.y.strides[2];
  }

  void lay(const Memory& memory, const Room& room, int64_t image, int64_t channels, int64_t from,
           int64_t rows) const {
    const auto turns = static_cast<int64_t>(ops_.group), row = cut_.row_bytes();
    const float scale = *s_.x_scale.at<float>(memory);
    const int zero = s_.x_zero ? *s_.x_zero->at<uint8_t>(memory) : 0;
    const bool is_unsigned = s_.x.type == Type::u8;
    const int32_t shift = is_unsigned ? zero - 128 : 0;
    for (int64_t first = 0; first < rows; first += turns) {
      const uint8_t* windows[kBlockMostGroup] = {};
      for (int64_t i = 0; i < std::min(turns, rows - first); ++i) {
        read_window(memory, image, channels, from + first + i, static_cast<uint8_t>(zero),
                    room.windows + i * row);
        windows[i] = room.windows + i * row;
      }
      int32_t* const negatives = room.negatives + first;
      ops_.lay(lay_of(cut_, windows, is_unsigned, room.codes + first * row, negatives));
      for (int64_t i = 0; i < turns; ++i) {
        room.x_scales[first + i] = scale;
        room.x_zeros[first + i] = shift;
        negatives[i] += shift * static_cast<int32_t>(cut_.k);
      }
    }
  }

  // Copies what a window reads, taps in the order of the weights.
  void read_window(const Memory& memory, int64_t image, int64_t group, int64_t pixel, uint8_t zero,
                   uint8_t* to) const {
    const View& x = s_.x;
    const auto [kernel_h, kernel_w] = s_.kernel;
    const int64_t top = pixel / s_.y.sizes[2] * s_.strides[0] - s_.pads[0];
    const int64_t left = pixel % s_.y.sizes[2] * s_.strides[1] - s_.pads[1];
    const uint8_t* const at = x.at<uint8_t>(memory) + image * x.strides[0] + group * in_;
    const auto depth = static_cast<size_t>(in_), line = static_cast<size_t>(kernel_w) * depth;
    const int64_t step = s_.dilations[1] * x.strides[2];
    const bool is_inside = left >= 0 && left + (kernel_w - 1) * s_.dilations[1] < x.sizes[2];
    for (int64_t i = 0; i < kernel_h; ++i, to += line) {
      const int64_t row = top + i * s_.dilations[0];
      if (row < 0 || row >= x.sizes[1]) {
        std::memset(to, zero, line);
        continue;
      }
      const uint8_t* const from = at + row * x.strides[1];
      if (is_inside && step == in_) {
        std::memcpy(to, from + left * x.strides[2], line);
        continue;
      }
      for (int64_t j = 0; j < kernel_w; ++j) {
        const int64_t column = left + j * s_.dilations[1];
        uint8_t* const tap = to + static_cast<size_t>(j) * depth;
        if (0 <= column && column < x.sizes[2]) {
          std::memcpy(tap, from + column * x.strides[2], depth);
        } else {
          std::memset(tap, zero, depth);
        }
      }
    }
  }

  void multiply(const Memory& memory, const Room& room, int64_t group, int64_t panel, int64_t image,
                int64_t from, int64_t rows) const {
    const int64_t at = group * panels_ + panel;
    BlockGemm g{};
    g.x = room.codes;
    g.rows = static_cast<size_t>(rows);
    g.negatives = room.negatives;
    g.x_scales = room.x_scales;
    g.x_blocks = g.w_blocks = g.pieces = g.x_every = g.w_every = 1;
    g.codes = s_.weight.at<const uint8_t>(memory) + at * cut_.units * 128;
    g.scales = {s_.scales.at<const float>(memory) + at * kPanel, false};
    g.zero = 128;
    if (s_.zeros) g.zeros = s_.zeros->at<const uint8_t>(memory) + at * kPanel;
    if (s_.bias) g.bias = s_.bias->at<const float>(memory) + at * kPanel;
    if (s_.sums) {
      g.x_zeros = room.x_zeros;
      g.sums = s_.sums->at<const int32_t>(memory) + at * kPanel;
    }
    g.k = static_cast<size_t>(cut_.k);
    g.units = g.piece = static_cast<size_t>(cut_.units);
    g.scratch = room.kernel;
    g.columns = static_cast<size_t>(std::min(chunk_ * kPanel, out_ - panel * kPanel));
    const int64_t channel = group * out_ + panel * kPanel;
    if (is_even()) {
      g.y = pixel_of(s_.y, memory, image, from) + channel;
      g.y_pitch = static_cast<size_t>(s_.y.strides[2] / 4);
      ops_.multiply8(g);
      return;
    }
    g.y = room.y;
    g.y_pitch = g.columns;
    ops_.multiply8(g);
    for (int64_t i = 0; i < rows; ++i) {
      const float* const row = room.y + static_cast<size_t>(i) * g.columns;
      std::memcpy(pixel_of(s_.y, memory, image, from + i) + channel, row, g.columns * sizeof *row);
    }
  }

  const BlockGemmOps& ops_;
  DynamicConvSpec s_;
  int64_t in_, out_;  // channels of a group
  BlockCut cut_;
  int64_t panels_ = 0, pixels_ = 0, rows_ = 1, blocks_ = 0, chunk_ = 1, chunks_ = 1;
};

}  // namespace

int64_t dynamic_conv_rows(int64_t pixels) {
  return std::max<int64_t>(1, std::min(tuning::block_products::kMostRows, pixels));
}

std::unique_ptr<Step> make_dynamic_conv(const BlockGemmOps& ops, const DynamicConvSpec& spec) {
  return std::make_unique<DynamicConv>(ops, spec);
}

}  // namespace intact
