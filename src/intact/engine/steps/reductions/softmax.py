"""The step for softmax."""

from __future__ import annotations

from dataclasses import dataclass

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Operand, Read, Write


@dataclass(frozen=True)
class Softmax(Step):
    """Over one axis, of ``x * gain`` (+ `mask`, a float tensor or constant that broadcasts)."""

    kind = "softmax"
    x: Read
    y: Write
    axis: int
    gain: float = 1.0
    mask: Operand = ""

    def check(self, checker: Checker) -> None:
        rank, other = checker.rank(self.y, self.x)
        checker.that(-rank <= self.axis < rank, f"axis {self.axis}", f"one of {rank} axes")
        checker.that(other == rank, (self.x,), f"tensors of rank {rank}")

    def evaluate(self, run: Run) -> None:
        mask = run.real(self.mask) if self.mask else None
        run.write_real(self.y, numerics.softmax(run.real(self.x), self.axis, self.gain, mask))
