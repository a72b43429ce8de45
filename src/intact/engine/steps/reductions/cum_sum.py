"""The step for running sums along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write
from intact.numerics import cum_sum


@dataclass(frozen=True)
class CumSum(Step):
    """Running sums along an axis (N54): without the element itself where `exclusive`, from the end where
    `reverse`."""

    kind = "cum_sum"
    x: Read
    y: Write
    axis: int
    exclusive: bool = False
    reverse: bool = False

    rules = """
        0 <= axis < rank(x) | an axis of x
        types(x, 'float32', 'int32', 'int64')
        one_dtype(x, y)
    """

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, cum_sum(run.array(self.x), self.axis, self.exclusive, self.reverse))
