"""The step that reduces the elements along one axis, of any type."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write
from intact.numerics import fold


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

    rules = """
        0 <= axis < rank(x) | an axis of x
        types(x, 'float32', 'float64', 'int32', 'int64')
        function in ('sum', 'prod', 'max', 'min') | a fold
        dtype(x) != 'float32' or function == 'prod' | a product of float32
        one_dtype(x, y)
        sizes y: replace(x, axis, 1)
    """

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, fold(run.array(self.x), self.axis, self.function))
