"""The step that adds two tensors of codes."""

from __future__ import annotations

from dataclasses import dataclass

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Add(Step):
    """Sum of two tensors of codes (N26), with broadcasting; bounds are codes of the output."""

    kind = "add"
    a: Read
    b: Read
    y: Write
    low: int | None = None
    high: int | None = None

    rules = """
        codes(a, b, y)
        sizes y: broadcast(a, b)
    """

    def evaluate(self, run: Run) -> None:
        out = run.codes(self.y)
        bounds = (out.low if self.low is None else self.low, out.high if self.high is None else self.high)
        a, b = (run.codes(name).affine for name in (self.a, self.b))
        codes = numerics.add(run.array(self.a), run.array(self.b), a, b, out.affine, out.spec, bounds=bounds)
        run.write_codes(self.y, codes)
