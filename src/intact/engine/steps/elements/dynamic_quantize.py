"""The step that quantizes by the range of what comes."""

from __future__ import annotations

from dataclasses import dataclass

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
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

    def check(self, checker: Checker) -> None:
        checker.floats(self.x, self.scales)
        checker.that(self.block >= 0, f"a block of {self.block}", "0 or more elements")
        checker.one_rank(self.x, self.y)
        dtype = checker.dtype(self.y)
        expected = "uint8" if self.zero_points else "int8"
        checker.that(dtype == expected, dtype, expected)
        rank = checker.rank(self.x)[0] if self.block else 0
        for name in filter(None, (self.scales, self.zero_points)):
            checker.that(checker.rank(name) == (rank,), f"'{name}'", f"rank {rank}")
        if self.zero_points:
            dtype = checker.dtype(self.zero_points)
            checker.that(dtype == "uint8", dtype, "uint8")

    def output_shapes(self, sizes: Sizes) -> tuple[Shape, ...]:
        shape = sizes.of(self.x)
        ranges: Shape = (*shape[:-1], -(-shape[-1] // self.block)) if self.block else ()
        return (shape, ranges, ranges) if self.zero_points else (shape, ranges)

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
