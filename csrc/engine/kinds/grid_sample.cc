// Values of images [n, c, h, w] at the places of a grid [n, rows, columns, 2] (N59), in float32.
#include "engine/binding.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "steps/grid_sample.h"

namespace intact::engine {
namespace {

struct GridSample final : PlanStep {
  explicit GridSample(Fields& f)
      : PlanStep(f, {.strided = true}),
        x(f.operand("x")),
        grid(f.operand("grid")),
        y(f.writes("y")),
        nearest(f.truth("nearest")),
        padding(grid_padding_of(f.one_of("padding", kGridPaddingNames)).value()),
        align_corners(f.truth("align_corners")) {}

  void bind(Binding& binding) const override {
    binding.add(make_grid_sample({binding.view(x), binding.view(grid), binding.view(y),
                                  nearest ? GridMode::nearest : GridMode::linear, padding, align_corners}));
  }
  int x, grid, y;
  bool nearest;
  GridPadding padding;
  bool align_corners;
};

}  // namespace

std::unique_ptr<PlanStep> read_grid_sample(Fields& fields) { return std::make_unique<GridSample>(fields); }

}  // namespace intact::engine
