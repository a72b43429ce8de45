"""The step that turns floats into codes."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Quantize(Step):
    """float32 -> codes (N11)."""

    kind = "quantize"
    x: Read
    y: Write

    rules = """
        floats(x)
        codes(y)
    """

    def evaluate(self, run: Run) -> None:
        run.write_real(self.y, run.real(self.x))
