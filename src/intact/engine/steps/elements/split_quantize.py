"""The step that turns floats into codes of 16 bits, as the bytes that kernels multiply."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Codes
from intact.engine.steps.base.wiring import Read, Write
from intact.engine.steps.elements.fake_quantize import within_format
from intact.spec import Format, QuantSpec

FORMATS = ("int16", "uint16")
MOST_SHIFT = 7
"""Of joined sums; sums of low bytes would leave int32 before any needs more."""


@dataclass(frozen=True)
class SplitQuantize(Step):
    """float32 -> codes of 16 bits (N11), less the least one, as two tensors of bytes (N62).

    Attributes:
        high, low: Which say ``256 * high + low``.
        format: One of `FORMATS`.
        scale: Real size of one step of `low`, a float32 number.
        zero_point: The code that means 0.0.
    """

    kind = "split_quantize"
    x: Read
    high: Write
    low: Write
    format: str
    scale: float
    zero_point: int

    rules = """
        floats(x)
        sizes high: x
        sizes low: x
    """

    @property
    def spec(self) -> QuantSpec:
        """The grid as `numerics` describes it."""
        return QuantSpec(Format.parse(self.format), symmetric=self.zero_point == 0)

    def check(self, checker: Checker) -> None:
        within_format(checker, FORMATS, self.format, self.scale, self.zero_point)
        high, low = split_codes(self.format, self.scale, self.zero_point)
        for name, codes in ((self.high, high), (self.low, low)):
            checker.that(checker.grid(name) == codes, f"{checker.grid(name)} in '{name}'", f"{codes}")

    def evaluate(self, run: Run) -> None:
        codes = numerics.quantize(run.real(self.x), np.float32(self.scale), self.zero_point, self.spec)
        above = codes - int(self.spec.qmin)
        run.write_codes(self.high, above >> 8)
        run.write_codes(self.low, above & 255)


def split_codes(format: str, scale: float, zero_point: int) -> tuple[Codes, Codes]:
    """Return the grids of the two tensors of bytes that hold codes of 16 bits."""
    above = zero_point - int(QuantSpec(Format.parse(format)).qmin)
    high = Codes(float(np.float32(256 * scale)), above >> 8, False, 0, 255)
    return high, Codes(scale, above & 255, False, 0, 255)


def check_low(checker: Checker, high: str, low: str, shift: int) -> None:
    """Refuse low bytes that are of other codes than the high ones; "" is none."""
    most = MOST_SHIFT if low else 0
    checker.that(0 <= shift <= most, f"sums rounded to multiples of 2^{shift}", f"an exponent of 0 to {most}")
    if not low:
        return
    checker.codes(high, low)
    checker.one_rank(high, low)
    above, below = checker.grid(high), checker.grid(low)
    assert above is not None and below is not None
    matching = above.scale == float(np.float32(256 * below.scale)) and not above.signed and not below.signed
    checker.that(matching, f"'{low}' of scale {below.scale}", f"low bytes of '{high}'")
