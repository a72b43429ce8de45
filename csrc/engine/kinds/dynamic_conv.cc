// Convolution of codes whose scale and zero point a run says, with constant codes
// [out, kernel_h, kernel_w, in / groups] (N73). Padding reads the zero point.
#include "steps/dynamic_conv.h"

#include <algorithm>
#include <functional>

#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/packed_blocks.h"
#include "engine/kinds/views.h"
#include "engine/kinds/window.h"
#include "steps/block_linear.h"
#include "steps/copy.h"
#include "steps/dynamic_depthwise.h"

namespace intact::engine {
namespace {

constexpr int kChannelsLast[] = {0, 2, 3, 1};
constexpr int64_t kMostPad = 1 << 16;
// Of codes and weights of 8 bits each: their sum stays within int32.
constexpr int64_t kMostTerms = ((int64_t{1} << 31) - 1) / (255 * 255);

// Groups that are multiplied together, so that they fill a panel: weights of other groups are 0.
struct JoinedGroups {
  JoinedGroups(const Shape& weight, int64_t groups_) : out(weight[0] / groups_), in(weight[3]) {
    const int64_t wanted = (static_cast<int64_t>(kBlockPanel) + out - 1) / out;
    const int64_t most = kMostTerms / (weight[1] * weight[2] * in);
    for (int64_t n = 1; n <= groups_ && n <= most && together < wanted; ++n) {
      if (groups_ % n == 0) together = n;
    }
    groups = groups_ / together;
  }
  int64_t out, in;  // channels of one
  int64_t together = 1, groups = 1;
};

struct DynamicConv final : PlanStep {
  explicit DynamicConv(Fields& f)
      : PlanStep(f, {.images = true, .writes_parts = true}),
        x(f.reads("x")),
        x_scale(f.operand("x_scale")),
        x_zero_point(f.operand("x_zero_point", true)),
        y(f.writes("y")),
        weight(f.constant("weight", Type::u8, 4)),
        scales(f.constant("scales", Type::f32, 1)),
        zero_points(f.constant("zero_points", Type::u8, 1, true)),
        bias(f.constant("bias", Type::f32, 1, true)),
        strides(f.pair("strides")),
        dilations(f.pair("dilations")),
        pads(f.integers_of<4>("pads")),
        groups(f.integer("groups")) {}

  void bind(Binding& binding) const override {
    const Shape& w = binding.shape(weight);
    const View to = turned(binding.view(y), kChannelsLast);
    const View written = has_neighbours(to) ? to : binding.temporary(Type::f32, sizes_of(to));
    w[3] == 1 && w[0] == groups ? add_depthwise(binding, written) : add_groups(binding, written);
    if (!Binding::same_memory(written, to)) binding.add(make_copy(*binding.kernels.transpose, {written, to}));
  }

  // What both forms have in common.
  template <class Spec>
  Spec spec_of(Binding& binding, const View& written) const {
    const Shape& w = binding.shape(weight);
    Spec spec{};
    spec.x = channels_last(binding);
    spec.x_scale = scalar(binding, x_scale);
    if (x_zero_point != kNoValue) spec.x_zero = scalar(binding, x_zero_point);
    spec.y = written;
    spec.kernel = {w[1], w[2]};
    spec.strides = strides;
    spec.dilations = dilations;
    spec.pads = pads;
    return spec;
  }

  void add_groups(Binding& binding, const View& written) const {
    const JoinedGroups joined(binding.shape(weight), groups);
    auto spec = spec_of<DynamicConvSpec>(binding, written);
    spec.groups = joined.groups;
    pack(binding, joined, spec);
    const bool is_few = dynamic_conv_rows(product(written.sizes[1], written.sizes[2])) <
                        static_cast<int64_t>(binding.kernels.block_gemm->least_rows);
    binding.add(
        make_dynamic_conv(is_few ? *binding.kernels.block_gemm_of_few : *binding.kernels.block_gemm, spec));
  }

  void add_depthwise(Binding& binding, const View& written) const {
    auto spec = spec_of<DynamicDepthwiseSpec>(binding, written);
    std::string form = "depthwise_codes";
    const std::span<const uint8_t> zeros =
        zero_points == kNoValue ? std::span<const uint8_t>{} : binding.array<uint8_t>(zero_points);
    const bool is_one = std::adjacent_find(zeros.begin(), zeros.end(), std::not_equal_to<>{}) == zeros.end();
    for (const uint8_t zero : is_one ? zeros.first(std::min<size_t>(1, zeros.size())) : zeros)
      form += "_" + std::to_string(zero);
    const auto channels = static_cast<size_t>(groups);
    const auto weight_of = [&](const Bytes& codes, size_t c, size_t tap) {
      const size_t taps = codes.bytes.size() / channels;
      return codes.bytes[c * taps + tap] - (zeros.empty() ? 128 : zeros[c]);
    };
    const auto weights = [&](const Bytes& codes) {
      std::vector<int32_t> values(codes.bytes.size());
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = weight_of(codes, i % channels, i / channels) & 0xffff;
      return bytes_of_values(values);
    };
    const auto sums = [&](const Bytes& codes) {
      std::vector<int32_t> values(channels);
      for (size_t i = 0; i < codes.bytes.size(); ++i)
        values[i % channels] += weight_of(codes, i % channels, i / channels);
      return bytes_of_values(values);
    };
    spec.weights = packed_vector(binding, binding.packed(weight, form, weights, Type::i32), Type::i32);
    spec.sums = packed_vector(binding, binding.packed(weight, form + ".sums", sums, Type::i32), Type::i32);
    spec.scales = binding.constant(scales);
    if (bias != kNoValue) spec.bias = binding.constant(bias);
    binding.add(make_dynamic_depthwise(*binding.kernels.dynamic_depthwise, spec));
  }

  static bool has_neighbours(const View& image) {
    return image.sizes[3] < 2 || image.strides[3] == static_cast<int64_t>(bytes_of(image.type));
  }

  View channels_last(Binding& binding) const {
    const View from = turned(binding.view(x), kChannelsLast);
    if (has_neighbours(from)) return from;
    const View dense = binding.temporary(from.type, sizes_of(from));
    binding.add(make_copy(*binding.kernels.transpose, {from, dense}));
    return dense;
  }

  static View scalar(Binding& binding, int value) {
    const View v = binding.view(value);
    const auto itemsize = static_cast<int64_t>(bytes_of(v.type));
    return part_of(v, v.offset, {1}, {itemsize});
  }

  void pack(Binding& binding, const JoinedGroups& joined, DynamicConvSpec& spec) const {
    const Shape& w = binding.shape(weight);
    const int64_t depth = w[1] * w[2] * joined.in * joined.together, outputs = joined.out * joined.together;
    const std::span<const uint8_t> zeros =
        zero_points == kNoValue ? std::span<const uint8_t>{} : binding.array<uint8_t>(zero_points);
    std::string form = "filter_codes_" + std::to_string(groups);
    // Codes of 0 stand in what is packed where groups are joined.
    if (joined.together > 1) {
      for (const uint8_t zero : zeros) form += "_" + std::to_string(zero);
    }
    const Bytes codes = binding.packed(weight, form, [&](const Bytes& b) {
      std::vector<uint8_t> all;
      for (int64_t g = 0; g < joined.groups; ++g) {
        const auto part = pack_block_codes(join(b.bytes, w, joined, g, zeros), outputs, depth, 8);
        all.insert(all.end(), part.begin(), part.end());
      }
      return all;
    });
    spec.weight = packed_vector(binding, codes, Type::u8);
    spec.scales = values<float>(binding, scales, "filter_scales_", joined, Type::f32);
    if (!zeros.empty()) spec.zeros = values<uint8_t>(binding, zero_points, "filter_zeros_", joined, Type::u8);
    if (bias != kNoValue) spec.bias = values<float>(binding, bias, "filter_bias_", joined, Type::f32);
    if (spec.x.type != Type::u8) return;
    const BlockCut cut(depth, depth, depth);
    const Bytes sums = binding.packed(
        weight, form + ".sums",
        [&](const Bytes&) {
          const int64_t panels = static_cast<int64_t>(codes.bytes.size()) / (cut.units * 128);
          return bytes_of_values(
              sum_block_codes(codes.bytes, panels * static_cast<int64_t>(kBlockPanel), 8, cut));
        },
        Type::i32);
    spec.sums = packed_vector(binding, sums, Type::i32);
  }

  // Codes [out, taps, in] of groups that are multiplied together as one.
  static std::vector<uint8_t> join(std::span<const uint8_t> codes, const Shape& w, const JoinedGroups& joined,
                                   int64_t group, std::span<const uint8_t> zeros) {
    const auto taps = static_cast<size_t>(w[1] * w[2]), in = static_cast<size_t>(joined.in);
    const auto together = static_cast<size_t>(joined.together), out = static_cast<size_t>(joined.out);
    const size_t first = static_cast<size_t>(group) * together * out;
    std::vector<uint8_t> found(together * out * taps * in * together);
    for (size_t i = 0; i < together * out; ++i) {
      const uint8_t zero = zeros.empty() ? 128 : zeros[first + i];
      uint8_t* const row = found.data() + i * taps * in * together;
      std::fill_n(row, taps * in * together, zero);
      for (size_t tap = 0; tap < taps; ++tap) {
        const uint8_t* const from = codes.data() + ((first + i) * taps + tap) * in;
        std::copy_n(from, in, row + (tap * together + i / out) * in);
      }
    }
    return found;
  }

  // A constant with a number for each output, in panels of each group.
  template <class T>
  static View values(Binding& binding, int value, const std::string& form, const JoinedGroups& joined,
                     Type type) {
    const auto outputs = static_cast<size_t>(joined.out * joined.together);
    const auto pack = [&](const Bytes& b) {
      const std::span<const T> all = b.as<T>();
      std::vector<T> found;
      for (size_t from = 0; from < all.size(); from += outputs) {
        const auto part = pack_block_values(all.subspan(from, outputs), static_cast<int64_t>(outputs));
        found.insert(found.end(), part.begin(), part.end());
      }
      return bytes_of_values(found);
    };
    return packed_vector(binding, binding.packed(value, form + std::to_string(outputs), pack, type), type);
  }

  int x, x_scale, x_zero_point, y, weight, scales, zero_points, bias;
  std::array<int64_t, 2> strides, dilations;
  std::array<int64_t, 4> pads;
  int64_t groups;
};

}  // namespace

std::unique_ptr<PlanStep> read_dynamic_conv(Fields& fields) { return std::make_unique<DynamicConv>(fields); }

}  // namespace intact::engine
