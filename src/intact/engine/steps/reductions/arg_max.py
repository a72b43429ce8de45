"""The step for the index of the largest element along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Read, Write
from intact.numerics import ORDER_DTYPES, arg_max


@dataclass(frozen=True)
class ArgMax(Step):
    """The place of the largest element along an axis, which stays with size 1 (N54).

    Attributes:
        smallest: Of the smallest one.
        last: Of equal ones the last; else the first.
    """

    kind = "arg_max"
    x: Read
    y: Write
    axis: int
    smallest: bool = False
    last: bool = False

    def check(self, checker: Checker) -> None:
        checker.axis(self.x, self.axis)
        checker.that(
            checker.dtype(self.x) in ORDER_DTYPES, checker.dtype(self.x), f"one of {', '.join(ORDER_DTYPES)}"
        )
        checker.that(checker.dtype(self.y) == "int64", checker.dtype(self.y), "int64")

    def output_shape(self, sizes: Sizes) -> Shape:
        return tuple(1 if axis == self.axis else n for axis, n in enumerate(sizes.of(self.x)))

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, arg_max(run.array(self.x), self.axis, self.smallest, self.last))
