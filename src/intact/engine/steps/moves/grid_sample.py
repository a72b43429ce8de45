"""The step that samples images at the places of a grid."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Write
from intact.numerics import PADDINGS, grid_sample


@dataclass(frozen=True)
class GridSample(Step):
    """Values of images [n, c, h, w] at the places of a grid [n, rows, columns, 2] (N59), in float32.

    Attributes:
        nearest: The nearest pixel; else between four.
        padding: One of `numerics.grid_sample.PADDINGS`.
        align_corners: -1 and 1 are the middles of the pixels at the rim, not their outer edges.
    """

    kind = "grid_sample"
    x: Operand
    grid: Operand
    y: Write
    nearest: bool = False
    padding: str = "zeros"
    align_corners: bool = False

    def check(self, checker: Checker) -> None:
        names = (self.x, self.grid, self.y)
        checker.that(set(checker.rank(*names)) == {4}, checker.rank(*names), "images")
        checker.floats(*names)
        checker.that(self.padding in PADDINGS, self.padding, f"one of {', '.join(PADDINGS)}")

    def output_shape(self, sizes: Sizes) -> Shape:
        (n, c, h, w), grid = sizes.of(self.x), sizes.of(self.grid)
        if grid[0] != n or grid[3] != 2:
            raise mismatch(self.grid, f"shape {grid}", f"two numbers for each place, in {n} images")
        shape = n, c, grid[1], grid[2]
        if 0 not in shape and not h * w:
            raise mismatch(self.x, f"shape {(n, c, h, w)}", "pixels")
        return shape

    def evaluate(self, run: Run) -> None:
        x, grid = run.array(self.x), run.array(self.grid)
        run.bind(self.y, grid_sample(x, grid, self.nearest, self.padding, self.align_corners))
