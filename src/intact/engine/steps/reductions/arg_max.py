"""The step for the index of the largest element along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write
from intact.numerics import arg_max


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

    rules = """
        0 <= axis < rank(x) | an axis of x
        types(x, 'float32', 'int32', 'int64', 'uint8', 'int8')
        types(y, 'int64')
        sizes y: replace(x, axis, 1)
    """

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, arg_max(run.array(self.x), self.axis, self.smallest, self.last))
