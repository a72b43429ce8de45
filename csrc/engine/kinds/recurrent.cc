// One layer of an LSTM, a GRU or a simple network, in one direction or in several (N52).
#include "engine/kinds.h"
#include "engine/kinds/float_filters.h"
#include "engine/kinds/recurrent_ports.h"

namespace intact::engine {
namespace {

// Weights of states [directions, gates * hidden, hidden] as panels, turned; of gru the last gate apart.
std::vector<uint8_t> pack_states(const FloatGemmOps& ops, const float* weight, const Shape& shape,
                                 Cell cell) {
  const auto rows = static_cast<size_t>(shape[1]), hidden = static_cast<size_t>(shape[2]);
  std::vector<uint8_t> found;
  for (int64_t d = 0; d < shape[0]; ++d) {
    const float* const own = weight + static_cast<size_t>(d) * rows * hidden;
    const size_t first = cell == Cell::gru ? rows * 2 / 3 : rows;
    for (const auto& [begin, end] : {std::pair{size_t{0}, first}, std::pair{first, rows}}) {
      if (begin == end) continue;
      const auto count = static_cast<int64_t>(end - begin);
      const auto packed = pack_filters(ops, own + begin * hidden, count, 1, shape[2], 1);
      found.insert(found.end(), packed.begin(), packed.end());
    }
  }
  return found;
}

struct Recurrent final : PlanStep {
  explicit Recurrent(Fields& f)
      : PlanStep(f, {.strided = true}),
        ports(f),
        weight(f.constant("weight", Type::f32, 3)),
        cell(read_cell(f.text("cell"), f.where())),
        bias(f.constant("bias", Type::f32, 2, true)) {}

  static Cell read_cell(const std::string& name, const std::string& where) {
    const auto cell = cell_of(name);
    if (!cell) fail_file(where, name, "a recurrent cell");
    return *cell;
  }

  void bind(Binding& binding) const override {
    const FloatGemmOps& ops = *binding.kernels.float_gemm;
    const Shape& w = binding.shape(weight);
    const std::string packed_as =
        std::string(intact::name_of(&ops)) + "." + kCellNames[static_cast<size_t>(cell)];
    const Bytes packed = binding.packed(
        weight, packed_as, [&](const Bytes& b) { return pack_states(ops, b.as<float>().data(), w, cell); },
        Type::f32);
    const auto count = static_cast<int64_t>(packed.bytes.size() / sizeof(float));
    RecurrentSpec spec = ports.spec(binding, cell, w[2]);
    spec.packed = binding.keep(packed, Type::f32, {count});
    if (bias != kNoValue) spec.bias = dense_under(binding.constant(bias), {w[0] * w[2]});
    binding.add(make_recurrent(*binding.kernels.float_steps, ops, spec));
  }

  RecurrentPorts ports;
  int weight;
  Cell cell;
  int bias;
};

}  // namespace

std::unique_ptr<PlanStep> read_recurrent(Fields& fields) { return std::make_unique<Recurrent>(fields); }

}  // namespace intact::engine
