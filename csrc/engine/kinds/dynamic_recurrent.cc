// One layer of an LSTM whose states are quantized in each step, in one direction or in several, with weights
// of codes [directions, gates * hidden, hidden] (N74).
#include "engine/kinds.h"
#include "engine/kinds/packed_blocks.h"
#include "engine/kinds/recurrent_ports.h"

namespace intact::engine {
namespace {

struct DynamicRecurrent final : PlanStep {
  explicit DynamicRecurrent(Fields& f)
      : PlanStep(f, {.strided = true}),
        ports(f),
        weight(f.constant("weight", Type::u8, 3)),
        scales(f.constant("scales", Type::f32, 2)),
        zero_points(f.constant("zero_points", Type::u8, 2, true)) {}

  void bind(Binding& binding) const override {
    const Shape& w = binding.shape(weight);
    const int64_t batch = binding.shape(ports.x)[ports.batch_first ? 0 : 1];
    const bool is_few = batch < static_cast<int64_t>(binding.kernels.block_gemm->least_rows);
    const Bytes codes = binding.packed(weight, "state_codes", [&](const Bytes& b) {
      return by_direction<uint8_t>(
          b, w[0], [&](std::span<const uint8_t> part) { return pack_block_codes(part, w[1], w[2], 8); });
    });
    const BlockCut cut(w[2], w[2], w[2]);
    const Bytes sums = binding.packed(
        weight, "state_sums",
        [&](const Bytes&) {
          const int64_t panels = static_cast<int64_t>(codes.bytes.size()) / (cut.units * 128);
          return bytes_of_values(
              sum_block_codes(codes.bytes, panels * static_cast<int64_t>(kBlockPanel), 8, cut));
        },
        Type::i32);
    DynamicStates states{is_few ? binding.kernels.block_gemm_of_few : binding.kernels.block_gemm,
                         binding.kernels.dynamic_quantize,
                         binding.kernels.reduce,
                         packed_vector(binding, codes, Type::u8),
                         values<float>(binding, scales, "state_scales", w, Type::f32),
                         {},
                         packed_vector(binding, sums, Type::i32)};
    if (zero_points != kNoValue)
      states.zeros = values<uint8_t>(binding, zero_points, "state_zero_points", w, Type::u8);
    RecurrentSpec spec = ports.spec(binding, Cell::lstm, w[2]);
    spec.dynamic = states;
    binding.add(make_recurrent(*binding.kernels.float_steps, *binding.kernels.float_gemm, spec));
  }

  // What `pack` makes of the part of each direction, one behind the other.
  template <class T, class Pack>
  static std::vector<uint8_t> by_direction(const Bytes& all, int64_t directions, const Pack& pack) {
    const std::span<const T> whole = all.as<T>();
    const size_t part = whole.size() / static_cast<size_t>(directions);
    std::vector<T> made;
    for (size_t from = 0; from < whole.size(); from += part) {
      const auto packed = pack(whole.subspan(from, part));
      made.insert(made.end(), packed.begin(), packed.end());
    }
    return bytes_of_values(made);
  }

  template <class T>
  static View values(Binding& binding, int value, const char* form, const Shape& w, Type type) {
    const auto pack = [&](const Bytes& b) {
      return by_direction<T>(b, w[0], [&](std::span<const T> part) { return pack_block_values(part, w[1]); });
    };
    return packed_vector(binding, binding.packed(value, form, pack, type), type);
  }

  RecurrentPorts ports;
  int weight, scales, zero_points;
};

}  // namespace

std::unique_ptr<PlanStep> read_dynamic_recurrent(Fields& fields) {
  return std::make_unique<DynamicRecurrent>(fields);
}

}  // namespace intact::engine
