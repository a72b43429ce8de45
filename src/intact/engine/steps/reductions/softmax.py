"""The step for softmax."""

from __future__ import annotations

from dataclasses import dataclass

from intact import numerics
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

    rules = """
        -rank(y) <= axis < rank(y) | an axis of y
        rank(x) == rank(y) | one rank
    """

    def evaluate(self, run: Run) -> None:
        mask = run.real(self.mask) if self.mask else None
        run.write_real(self.y, numerics.softmax(run.real(self.x), self.axis, self.gain, mask))
