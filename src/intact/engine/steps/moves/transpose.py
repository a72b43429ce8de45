"""The step that permutes axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Transpose(Step):
    """Axis i of y is axis perm[i] of x."""

    kind = "transpose"
    x: Read
    y: Write
    perm: tuple[int, ...]

    rules = """
        one_dtype(x, y)
        per_axis(x, y, perm)
        are_axes(perm, rank(x)) | a permutation
        sizes y: pick(x, perm)
    """

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, np.transpose(run.array(self.x), self.perm))
