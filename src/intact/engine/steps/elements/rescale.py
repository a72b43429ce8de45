"""The step that moves codes from one grid to another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Rescale(Step):
    """Codes of one grid to codes of another (N28)."""

    kind = "rescale"
    x: Read
    y: Write

    rules = """
        codes(x, y)
    """

    def evaluate(self, run: Run) -> None:
        run.write_codes(self.y, rescale_to(run, self.x, self.y))


def rescale_to(run: Run, x: str, y: str) -> NDArray[np.int32]:
    """Rescale the codes of x to the grid of y."""
    out = run.codes(y)
    return numerics.rescale(run.array(x), run.codes(x).affine, out.affine, out.spec)
