"""Floats brought to a grid, and left floats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact import numerics
from intact.engine.steps.checker import Checker
from intact.engine.steps.run import Run
from intact.engine.steps.step import Step, Traits
from intact.engine.steps.wiring import Read, Write
from intact.spec import Format, QuantSpec

FORMATS = ("int16", "uint16", "int4", "uint4")
"""Grids whose codes no kernel computes with: what they round is computed with in floats."""

_SMALLEST, _LARGEST = 2.0**-149, float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class FakeQuantize(Step):
    """What a Q/DQ pair makes of floats where nothing computes with its codes (N56).

    Attributes:
        format: One of `FORMATS`.
        scale: Real size of one step, a float32 number.
        zero_point: The code that means 0.0.
    """

    kind = "fake_quantize"
    traits = Traits(follows=True, writes_parts=True, in_place=("x",))
    x: Read
    y: Write
    format: str
    scale: float
    zero_point: int

    @property
    def spec(self) -> QuantSpec:
        """The grid as `numerics` describes it."""
        return QuantSpec(Format.parse(self.format), symmetric=self.zero_point == 0)

    @property
    def steps(self) -> tuple[int, int]:
        """The ends of the grid, in steps from 0.0."""
        return int(self.spec.qmin) - self.zero_point, int(self.spec.qmax) - self.zero_point

    def check(self, checker: Checker) -> None:
        checker.that(self.format in FORMATS, self.format, f"one of {', '.join(FORMATS)}")
        low, high = self.steps
        checker.that(low <= 0 <= high, f"zero point {self.zero_point}", f"a code of {self.format}")
        known = _SMALLEST <= self.scale <= _LARGEST
        checker.that(known, f"scale {self.scale}", "a positive float32 number")

    def evaluate(self, run: Run) -> None:
        real, scale = run.real(self.x), np.float32(self.scale)
        run.write_real(self.y, numerics.fake_quantize(real, scale, self.zero_point, self.spec))
