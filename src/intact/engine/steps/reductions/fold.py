"""The step that reduces the elements along one axis, of any type."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Read, Write
from intact.numerics import FOLD_DTYPES, fold


@dataclass(frozen=True)
class Fold(Step):
    """One number for the elements along an axis, which stays with size 1 (N60).

    Attributes:
        function: One of `numerics.fold.FOLD_DTYPES` of the dtype.
    """

    kind = "fold"
    x: Read
    y: Write
    axis: int
    function: str

    def check(self, checker: Checker) -> None:
        checker.axis(self.x, self.axis)
        dtype = checker.dtype(self.x)
        is_supported = self.function in FOLD_DTYPES.get(dtype, ())
        checker.that(is_supported, f"{self.function} of {dtype}", f"one of {FOLD_DTYPES}")
        checker.one_dtype(self.x, self.y)

    def output_shape(self, sizes: Sizes) -> Shape:
        return tuple(1 if axis == self.axis else n for axis, n in enumerate(sizes.of(self.x)))

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, fold(run.array(self.x), self.axis, self.function))
