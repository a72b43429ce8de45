"""The step that samples images at the places of a grid."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Operand, Write
from intact.numerics import grid_sample


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

    rules = """
        ranks(4, x, grid, y)
        floats(x, grid, y)
        padding in ('zeros', 'border', 'reflection') | a padding
        places = [x[0], x[1], grid[1], grid[2]]
        fits grid: grid[0] == x[0] and grid[3] == 2 | two numbers for each place of each image
        fits x: prod(places) == 0 or x[2] * x[3] > 0 | pixels
        sizes y: places
    """

    def evaluate(self, run: Run) -> None:
        x, grid = run.array(self.x), run.array(self.grid)
        run.bind(self.y, grid_sample(x, grid, self.nearest, self.padding, self.align_corners))
