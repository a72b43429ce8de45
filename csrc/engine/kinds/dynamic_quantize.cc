// x float32 to codes by ranges of its own (N68): of all of it, or of blocks along its last axis.
#include "steps/dynamic_quantize.h"

#include <span>

#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "steps/common/walk.h"

namespace intact::engine {
namespace {

struct DynamicQuantize final : PlanStep {
  explicit DynamicQuantize(Fields& f)
      : PlanStep(f, {}),
        x(f.reads("x")),
        y(f.writes("y")),
        scales(f.writes("scales")),
        zero_points(f.writes("zero_points", true)),
        block(f.integer("block")) {}

  void bind(Binding& binding) const override {
    if (block == 0 && bind_in_memory_order(binding)) return;
    const View from = rows_read(binding, x);
    const RowsWritten codes(binding, y), ranges(binding, scales);
    DynamicQuantizeSpec spec{from, codes.rows(), ranges.rows(), {}, block};
    std::optional<RowsWritten> zeros;
    if (zero_points != kNoValue) spec.zeros = zeros.emplace(binding, zero_points).rows();
    add_steps(binding, spec);
    codes.finish(binding);
    ranges.finish(binding);
    if (zeros) zeros->finish(binding);
  }

  // One range for all of x has no order: rows are those of the memory, where codes lie as x does. Images
  // that lie channels last need no copies then.
  bool bind_in_memory_order(Binding& binding) const {
    const View from = binding.view(x), to = binding.view(y);
    if (from.rank < 2 || sizes_of(from).has(0)) return false;
    const auto axes = axes_in_memory(from);
    const auto order = std::span(axes).first(static_cast<size_t>(from.rank));
    View rows, codes;
    if (!rows_of(turned(from, order), rows) || !rows_of(turned(to, order), codes)) {
      return false;
    }
    if (!(sizes_of(rows) == sizes_of(codes)) || rows.strides[1] != 4 || codes.strides[1] != 1) return false;
    DynamicQuantizeSpec spec{rows, codes, rows_read(binding, scales), {}, block};
    if (zero_points != kNoValue) spec.zeros = rows_read(binding, zero_points);
    add_steps(binding, spec);
    return true;
  }

  // Several threads find one range of many values, where there is memory for what each of them finds.
  void add_steps(Binding& binding, DynamicQuantizeSpec& spec) const {
    if (block == 0) {
      const int64_t parts = range_parts(spec.x);
      if (parts > 1 && spec.x.sizes[1] > 0 && binding.has_temporary())
        spec.parts = binding.temporary(Type::f32, {parts, 2});
      binding.add(make_dynamic_range(*binding.kernels.reduce, spec));
    }
    binding.add(make_dynamic_quantize(*binding.kernels.dynamic_quantize, spec));
  }

  int x, y, scales, zero_points;
  int64_t block;
};

}  // namespace

std::unique_ptr<PlanStep> read_dynamic_quantize(Fields& fields) {
  return std::make_unique<DynamicQuantize>(fields);
}

}  // namespace intact::engine
