"""The step that turns codes into floats."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Dequantize(Step):
    """codes -> float32 (N12)."""

    kind = "dequantize"
    x: Read
    y: Write

    rules = """
        codes(x)
        floats(y)
    """

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, run.real(self.x))
