"""The step for running sums along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write
from intact.numerics import CUM_SUM_DTYPES, cum_sum


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

    def check(self, checker: Checker) -> None:
        checker.axis(self.x, self.axis)
        checker.that(
            checker.dtype(self.x) in CUM_SUM_DTYPES,
            checker.dtype(self.x),
            f"one of {', '.join(CUM_SUM_DTYPES)}",
        )
        checker.one_dtype(self.x, self.y)

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, cum_sum(run.array(self.x), self.axis, self.exclusive, self.reverse))
