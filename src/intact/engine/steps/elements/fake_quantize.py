"""The step that rounds floats to a grid and leaves them floats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write
from intact.spec import Format, QuantSpec

FORMATS = ("int16", "uint16", "int4", "uint4")
"""Grids whose codes no kernel computes with: what they round is computed with in floats."""

_SMALLEST, _LARGEST = 2.0**-149, float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class FakeQuantize(Step):
    """Rounds floats to the grid of a Q/DQ pair whose codes nothing computes with (N56).

    Attributes:
        format: One of `FORMATS`.
        scale: Real size of one step, a float32 number.
        zero_point: The code that means 0.0.
        low, high: Ends of what it writes, in codes; None: those of the grid.
    """

    kind = "fake_quantize"
    x: Read
    y: Write
    format: str
    scale: float
    zero_point: int
    low: int | None = None
    high: int | None = None

    @property
    def spec(self) -> QuantSpec:
        """The grid as `numerics` describes it."""
        return QuantSpec(Format.parse(self.format), symmetric=self.zero_point == 0)

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest code that it writes."""
        low = int(self.spec.qmin) if self.low is None else self.low
        high = int(self.spec.qmax) if self.high is None else self.high
        return low, high

    def check(self, checker: Checker) -> None:
        within_format(checker, FORMATS, self.format, self.scale, self.zero_point)
        low, high = self.ends
        ordered = int(self.spec.qmin) <= low <= high <= int(self.spec.qmax)
        checker.that(ordered, f"codes from {low} to {high}", f"ends within {self.format}, in order")

    def evaluate(self, run: Run) -> None:
        grid = np.float32(self.scale), self.zero_point, self.spec
        low, high = numerics.dequantize(self.ends, *grid)
        run.write_real(self.y, numerics.clip(numerics.fake_quantize(run.real(self.x), *grid), low, high))


def within_format(
    checker: Checker, formats: tuple[str, ...], format: str, scale: float, zero_point: int
) -> None:
    """Refuse grids that none of these formats has."""
    checker.that(format in formats, format, f"one of {', '.join(formats)}")
    spec = QuantSpec(Format.parse(format))
    within = int(spec.qmin) <= zero_point <= int(spec.qmax)
    checker.that(within, f"zero point {zero_point}", f"a code of {format}")
    checker.that(_SMALLEST <= scale <= _LARGEST, f"scale {scale}", "a positive float32 number")
