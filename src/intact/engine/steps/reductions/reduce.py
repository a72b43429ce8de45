"""The step that reduces floats along some axes."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
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

    rules = """
        function in ('max', 'mean', 'min', 'sum') | a reduction
        are_axes(axes, rank(x)) | some of the axes of x
        rank(y) == rank(x) - (0 if keepdims else len(axes)) | an axis for each that stays
        sizes y: reduced(x, axes, keepdims)
    """

    def evaluate(self, run: Run) -> None:
        run.write_real(self.y, REDUCTIONS[self.function](run.real(self.x), self.axes, self.keepdims))
