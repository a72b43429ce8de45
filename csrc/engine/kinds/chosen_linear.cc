// Rows of x [..., in] times the matrices that they choose: the experts of a transformer. Rows are an image of
// one line; what does not lie so is copied.
#include "engine/kinds.h"
#include "engine/kinds/conv_forms.h"
#include "engine/kinds/views.h"
#include "steps/chosen_linear.h"
#include "steps/conv.h"
#include "steps/copy.h"

namespace intact::engine {
namespace {

// A tensor as (1, 1, rows, c), its last axis being c; false where that is no row of neighbours, or rows are
// not equally far from each other.
bool line_of_rows(const View& x, View& found) {
  const auto itemsize = static_cast<int64_t>(bytes_of(x.type));
  const int64_t width = x.sizes[x.rank - 1];
  if (width > 1 && x.strides[x.rank - 1] != itemsize) return false;
  int64_t rows = 1, row = width * itemsize, reach = 0;
  bool any = false;
  for (int i = x.rank - 1; i-- > 0;) {
    const int64_t size = x.sizes[i], stride = x.strides[i];
    if (size != 1 && any && stride != reach && !sizes_of(x).has(0)) return false;
    if (size != 1 && !any) row = stride;
    if (size != 1) {
      any = true;
      reach = stride * size;
    }
    rows = product(rows, size);
  }
  found = part_of(x, x.offset, {1, 1, rows, width}, {0, 0, row, itemsize});
  return true;
}

struct ChosenLinear final : PlanStep {
  explicit ChosenLinear(Fields& f)
      : PlanStep(f, {}),
        x(f.reads("x")),
        index(f.operand("index")),
        y(f.writes("y")),
        weight(f.constant("weight", Type::i8, 2)),
        groups(f.integer("groups")),
        epilogue(f) {}

  void check(const Checker& checker) const override {
    epilogue.check(checker, checker.sizes(weight)[0]);
    checker.that(epilogue.residual == kNoValue, "no residual, where rows choose");
  }

  void bind(Binding& binding) const override {
    View from = binding.view(x), rows, made;
    if (!line_of_rows(from, rows)) {
      const View dense = binding.temporary(from.type, sizes_of(from));
      binding.add(make_copy(*binding.kernels.transpose, {from, dense}));
      line_of_rows(dense, rows);
    }
    const View to = binding.view(y);
    const bool direct = line_of_rows(to, made);
    const View dense = direct ? to : binding.temporary(to.type, sizes_of(to));
    if (!direct) line_of_rows(dense, made);
    check_indices(binding, index, {groups});
    const View all = binding.view(index);
    add_chosen(rows, part_of(all, all.offset, {all.sizes[0]}, {all.strides[0]}), made, binding);
    if (!direct) binding.add(make_copy(*binding.kernels.transpose, {dense, to}));
  }

  // The first kernel of vectors that the matrices and the rows of each suit.
  const GemmOps& kernel(int64_t rows, Binding& binding) const {
    const auto& forms = binding.kernels.chosen_forms;
    demand(!forms.empty(), "no kernel of vectors");
    const Shape& w = binding.shape(weight);
    for (const GemmOps* one : forms) {
      if (fills(*one, std::max<int64_t>(rows / groups, 1), w[1], w[0] / groups)) return *one;
    }
    return *forms.front();
  }

  void add_chosen(const View& rows, const View& chosen, const View& made, Binding& binding) const {
    const Shape& w = binding.shape(weight);
    const GemmOps& ops = kernel(chosen.sizes[0], binding);
    const int32_t high = rows.high;
    const std::string form = std::string(intact::name_of(&ops)) + ".to" + std::to_string(high) + ".chosen" +
                             std::to_string(groups);
    const auto layer = binding.part<ConvLayer>(form, [&] {
      PartialConv part{};
      part.constant = weight;
      part.weight = {w[0], 1, 1, w[1], {}};
      std::vector<int64_t> correction = weight_sums(part, binding);
      for (int64_t& sum : correction) sum *= -binding.codes(x).zero();
      const Bytes packed =
          binding.plan.arrays.packed(binding.plan.constant(weight), form, [&](const Bytes& bytes) {
            const auto size = [](int64_t n) { return static_cast<int32_t>(n); };
            return pack_gemm({size(w[0]), 1, 1, size(w[1]), size(groups), false, high},
                             bytes.as<int8_t>().data(), ops);
          });
      ConvLayerSpec spec{&ops, packed_weights(packed),
                         bind_epilogue(epilogue, y, binding, {w[0], 1, correction, {}})};
      spec.zero = binding.codes(x).zero();
      return std::make_shared<const ConvLayer>(spec);
    });
    const ConvViews views{rows, made, {}, {}, {1, 1}, {1, 1}, {0, 0}, binding.threads()};
    binding.add(make_chosen_linear({{views, layer}, chosen}));
  }

  int x, index, y, weight;
  int64_t groups;
  EpilogueRecord epilogue;
};

}  // namespace

std::unique_ptr<PlanStep> read_chosen_linear(Fields& fields) {
  return std::make_unique<ChosenLinear>(fields);
}

}  // namespace intact::engine
