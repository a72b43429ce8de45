"""The step that quantizes by the range of what comes."""

from __future__ import annotations

from dataclasses import dataclass

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class DynamicQuantize(Step):
    """x float32 to codes by ranges of its own (N68): of all of it, or of blocks of its last axis.

    Attributes:
        y: int8, or uint8 with zero points.
        scales: float32; no axes, or those of x with the blocks last.
        zero_points: uint8, likewise; "" for int8.
        block: Elements of a block, 0 for all of x.
    """

    kind = "dynamic_quantize"
    x: Read
    y: Write
    scales: Write
    zero_points: Write = ""
    block: int = 0

    rules = """
        floats(x, scales)
        block >= 0 | 0 or more elements
        one_rank(x, y)
        dtype(y) == ('uint8' if zero_points else 'int8') | int8, or uint8 with zero points
        ranks(rank(x) if block else 0, scales, zero_points)
        not zero_points or dtype(zero_points) == 'uint8' | zero points of uint8
        ranges = [*x[:-1], ceil_div(x[-1], block)] if block else []
        sizes y: x
        sizes scales: ranges
        sizes zero_points: ranges
    """

    def evaluate(self, run: Run) -> None:
        x, block = run.array(self.x), self.block or None
        codes = numerics.quantize_dynamic(
            x, symmetric=not self.zero_points, per="block" if block else "tensor", block_size=block
        )
        run.bind(self.y, codes.codes)
        run.bind(self.scales, codes.scales)
        if self.zero_points:
            assert codes.zero_points is not None
            run.bind(self.zero_points, codes.zero_points)
