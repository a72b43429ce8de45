"""The step that clips floats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Clip(Step):
    """Bounds of floats (N49). None: unbounded."""

    kind = "clip"
    x: Read
    y: Write
    low: float | None = None
    high: float | None = None

    def evaluate(self, run: Run) -> None:
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        run.write_real(self.y, numerics.clip(run.real(self.x), low, high))
