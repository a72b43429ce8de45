"""The step for a product of two tensors of floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Write


@dataclass(frozen=True)
class FloatMatMul(Step):
    """Product of float32 [..., i, k] by [..., k, j], leading axes broadcast (N51).

    a or b may name a constant.
    """

    kind = "float_matmul"
    a: Operand
    b: Operand
    y: Write

    rules = """
        rank(a) >= 2 and rank(b) >= 2 | rank 2 or more
        floats(a, b, y)
        sizes y: product(a, b)
    """

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, numerics.float_product(run.array(self.a), run.array(self.b)))

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * shape_of(self.a)[-1]
