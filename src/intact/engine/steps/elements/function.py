"""The step for functions of one float."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write
from intact.numerics import FUNCTIONS


@dataclass(frozen=True)
class Function(Step):
    """An element-wise function of `numerics` in floats: "gelu", "sigmoid", "tanh", "silu", "relu", ..."""

    kind = "function"
    x: Read
    y: Write
    function: str

    def evaluate(self, run: Run) -> None:
        run.write_real(self.y, FUNCTIONS[self.function](run.real(self.x)))
