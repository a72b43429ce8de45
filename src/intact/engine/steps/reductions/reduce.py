"""The step that reduces floats along some axes."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Read, Write
from intact.numerics import REDUCTIONS


@dataclass(frozen=True)
class Reduce(Step):
    """One of `REDUCTIONS` of floats along axes (N50), which stay with size 1 where `keepdims` says so."""

    kind = "reduce"
    x: Read
    y: Write
    function: str
    axes: tuple[int, ...]
    keepdims: bool = False

    def check(self, checker: Checker) -> None:
        checker.that(self.function in REDUCTIONS, self.function, f"one of {', '.join(REDUCTIONS)}")
        rank, other = checker.rank(self.x, self.y)
        distinct = len(set(self.axes)) == len(self.axes) and all(0 <= axis < rank for axis in self.axes)
        checker.that(distinct, self.axes, f"some of {rank} axes")
        left = rank if self.keepdims else rank - len(self.axes)
        checker.that(other == left, f"'{self.y}'", f"rank {left}")

    def output_shape(self, sizes: Sizes) -> Shape:
        axis_sizes = ((axis not in self.axes, n) for axis, n in enumerate(sizes.of(self.x)))
        return tuple(n if stays else 1 for stays, n in axis_sizes if stays or self.keepdims)

    def evaluate(self, run: Run) -> None:
        run.write_real(self.y, REDUCTIONS[self.function](run.real(self.x), self.axes, self.keepdims))
