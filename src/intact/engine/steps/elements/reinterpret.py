"""The step that gives the same codes another grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Reinterpret(Step):
    """The same codes under another grid: a DequantizeLinear has other parameters than its QuantizeLinear."""

    kind = "reinterpret"
    x: Read
    y: Write

    def check(self, checker: Checker) -> None:
        checker.codes(self.x, self.y)
        x, y = checker.grid(self.x), checker.grid(self.y)
        assert x is not None and y is not None
        within = x.signed == y.signed and y.low <= x.low <= x.high <= y.high
        checker.that(within, f"{x} in '{self.x}'", f"codes within those of '{self.y}'")

    def evaluate(self, run: Run) -> None:
        run.write_codes(self.y, run.array(self.x).astype(np.int32))
