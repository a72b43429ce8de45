"""The step that pads with a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Read, Write

_MOST = 2**40
"""Elements in front of an axis or behind it: so that sums of sizes fit in 64 bits."""


@dataclass(frozen=True)
class Pad(Step):
    """Constant padding. (before, after) for each axis.

    Attributes:
        fill: A constant of one element, of the dtype of x (codes: int8 or uint8, as they are in the graph).
            Without one real 0 (codes: the zero point).
    """

    kind = "pad"
    x: Read
    y: Write
    pads: tuple[tuple[int, int], ...]
    fill: Operand = ""

    def check(self, checker: Checker) -> None:
        checker.one_dtype(self.x, self.y)
        checker.per_axis((self.x, self.y), self.pads)
        widths = [n for pair in self.pads for n in pair]
        checker.that(all(0 <= n <= _MOST for n in widths), self.pads, f"pads of 0 to {_MOST}")
        if self.fill:
            grid = checker.grid(self.x)
            wanted = checker.dtype(self.x) if grid is None else "int8" if grid.signed else "uint8"
            dtype, shape = checker.constant(self.fill)
            checker.that((dtype, shape) == (wanted, (1,)), f"{dtype} {shape}", f"one {wanted} to fill with")

    def output_shape(self, sizes: Sizes) -> Shape:
        x = sizes.of(self.x)
        return tuple(n + before + after for n, (before, after) in zip(x, self.pads, strict=True))

    def evaluate(self, run: Run) -> None:
        grid = run.grid(self.x)
        zero = 0 if grid is None else grid.zero_point
        fill = run.constants[self.fill][0] if self.fill else zero
        run.bind(self.y, np.pad(run.array(self.x), self.pads, constant_values=fill))
