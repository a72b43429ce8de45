"""The step that pads with a constant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.dims import Dim, values_of
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Read, Write

_MOST = 2**40
"""Elements in front of an axis or behind it: so that sums of sizes fit in 64 bits."""


@dataclass(frozen=True)
class Pad(Step):
    """Constant padding. (before, after) for each axis, which may follow from sizes.

    Attributes:
        fill: A constant of one element, of the dtype of x (codes: int8 or uint8, as they are in the graph).
            Without one real 0 (codes: the zero point).
    """

    kind = "pad"
    x: Read
    y: Write
    pads: tuple[tuple[Dim, Dim], ...]
    fill: Operand = ""

    @property
    def constant_pads(self) -> tuple[int, ...]:
        """The pads before and after each axis in turn; none where one follows from sizes."""
        pads = tuple(n for pair in self.pads for n in pair if isinstance(n, int))
        return pads if len(pads) == 2 * len(self.pads) else ()

    def check(self, checker: Checker) -> None:
        checker.one_dtype(self.x, self.y)
        checker.per_axis(self.x, self.y, self.pads)
        widths = [n for pair in self.pads for n in pair if isinstance(n, int)]
        checker.that(all(0 <= n <= _MOST for n in widths), self.pads, f"pads of 0 to {_MOST}")
        if self.fill:
            grid = checker.grid(self.x)
            wanted = checker.dtype(self.x) if grid is None else "int8" if grid.signed else "uint8"
            dtype, shape = checker.constant(self.fill)
            checker.that((dtype, shape) == (wanted, (1,)), f"{dtype} {shape}", f"one {wanted} to fill with")

    def output_shape(self, sizes: Sizes) -> Shape:
        x, pads = sizes.of(self.x), self._numbers(sizes.dims)
        return tuple(n + before + after for n, (before, after) in zip(x, pads, strict=True))

    def _numbers(self, free_sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        pads = [values_of(pair, free_sizes, f"step '{self.name}'") for pair in self.pads]
        if any(not 0 <= n <= _MOST for pair in pads for n in pair):
            raise mismatch(self.x, f"pads {pads}", f"pads of 0 to {_MOST}")
        return pads

    def evaluate(self, run: Run) -> None:
        grid = run.grid(self.x)
        zero = 0 if grid is None else grid.zero_point
        fill = run.constants[self.fill][0] if self.fill else zero
        run.bind(self.y, np.pad(run.array(self.x), self._numbers(run.sizes), constant_values=fill))
