// One layer of an LSTM, a GRU or a simple network, in one direction or in several (N52): views with the batch
// last but one, whatever comes first in the graph.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/float_filters.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/recurrent.h"

namespace intact::engine {
namespace {

constexpr int kState[] = {1, 0, 2}, kStates[] = {1, 2, 0, 3};

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
        x(f.reads("x")),
        weight(f.constant("weight", Type::f32, 3)),
        cell(read_cell(f.text("cell"), f.where())),
        reverse(f.truths("reverse")),
        bias(f.constant("bias", Type::f32, 2, true)),
        h(f.operand("h", true)),
        c(f.operand("c", true)),
        lengths(f.operand("lengths", true)),
        y(f.writes("y", true)),
        last_h(f.writes("last_h", true)),
        last_c(f.writes("last_c", true)),
        batch_first(f.truth("batch_first")) {}

  static Cell read_cell(const std::string& name, const std::string& where) {
    const auto cell = cell_of(name);
    if (!cell) fail_file(where, name, "a recurrent cell");
    return *cell;
  }

  void check(const Checker& checker) const override {
    const Shape& shape = checker.sizes(weight);
    const auto directions = static_cast<int64_t>(reverse.size());
    const bool fits =
        shape[0] == directions && directions > 0 && shape[2] > 0 && shape[1] == gates_of(cell) * shape[2];
    checker.that(fits, "weights of each direction, gate and state");
    checker.ranks(3, x);
    for (const int state : {h, c, last_h, last_c}) {
      if (state != kNoValue) checker.ranks(3, state);
    }
    checker.floats(x);
    checker.that(!writes.empty(), "outputs");
    checker.that((c == kNoValue && last_c == kNoValue) || cell == Cell::lstm, "a cell with two states");
    checker.that(bias == kNoValue || cell == Cell::gru_reset_after, "no bias apart");
    if (bias != kNoValue)
      checker.that(checker.sizes(bias) == Shape{shape[0], shape[2]}, "a bias for each state");
    if (y != kNoValue) checker.ranks(4, y);
    if (lengths != kNoValue) {
      checker.ranks(1, lengths);
      checker.that(checker.is(lengths, Type::i32), "lengths of int32");
    }
  }

  void made_shapes(const Sizes& sizes, std::vector<Shape>& made) const override {
    const Shape &w = sizes.of(weight), &given = sizes.of(x);
    const int64_t steps = given[batch_first ? 1 : 0], batch = given[batch_first ? 0 : 1];
    if (given[2] != product(w[0], w[1]))
      sizes.mismatch(x, std::to_string(given[2]) + " columns", "those of all gates");
    const Shape state = batch_first ? Shape{batch, w[0], w[2]} : Shape{w[0], batch, w[2]};
    for (const int value : {h, c}) {
      if (value != kNoValue && !(sizes.of(value) == state)) {
        sizes.mismatch(value, "shape " + text_of(sizes.of(value)), text_of(state));
      }
    }
    if (lengths != kNoValue && !(sizes.of(lengths) == Shape{batch})) {
      sizes.mismatch(lengths, "shape " + text_of(sizes.of(lengths)), text_of(Shape{batch}));
    }
    if (y != kNoValue) {
      made.push_back(batch_first ? Shape{batch, steps, w[0], w[2]} : Shape{steps, w[0], batch, w[2]});
    }
    for (const int value : {last_h, last_c}) {
      if (value != kNoValue) made.push_back(state);
    }
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
    RecurrentSpec spec{};
    spec.cell = cell;
    spec.hidden = w[2];
    spec.reverse = reverse;
    spec.x = ordered(binding.view(x), kState);
    spec.packed = binding.keep(packed, Type::f32, {count});
    if (bias != kNoValue) spec.bias = dense_under(binding.constant(bias), {w[0] * w[2]});
    spec.h = state_in(h, binding);
    spec.c = state_in(c, binding);
    if (lengths != kNoValue) spec.lengths = binding.view(lengths);
    spec.y = state_out(y, kStates, binding);
    spec.last_h = state_out(last_h, kState, binding);
    spec.last_c = state_out(last_c, kState, binding);
    spec.threads = binding.threads();
    binding.add(make_recurrent(*binding.kernels.float_steps, ops, spec));
  }

  View ordered(const View& view, std::span<const int> order) const {
    return batch_first ? turned(view, order) : view;
  }
  std::optional<RealIn> state_in(int value, Binding& binding) const {
    if (value == kNoValue) return std::nullopt;
    RealIn found = binding.real_in(value);
    found.view = ordered(found.view, kState);
    return found;
  }
  std::optional<RealOut> state_out(int value, std::span<const int> order, Binding& binding) const {
    if (value == kNoValue) return std::nullopt;
    RealOut found = binding.real_out(value);
    found.view = ordered(found.view, order);
    return found;
  }

  int x, weight;
  Cell cell;
  std::vector<bool> reverse;
  int bias, h, c, lengths, y, last_h, last_c;
  bool batch_first;
};

}  // namespace

std::unique_ptr<PlanStep> read_recurrent(Fields& fields) { return std::make_unique<Recurrent>(fields); }

}  // namespace intact::engine
