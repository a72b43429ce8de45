"""The step for a product of floats with a constant matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Read, Write


@dataclass(frozen=True)
class FloatLinear(Step):
    """x [..., in] times constant weights float32 [in, out], from the bias [out] on (N51): Gemm, MatMul."""

    kind = "float_linear"
    x: Read
    y: Write
    weight: Annotated[str, Const("float32", 2)]
    bias: Annotated[str, Const("float32", 1)] = ""

    rules = """
        min(weight) > 0 | weights that are not empty
        one_rank(x, y)
        floats(x, y)
        not bias or bias[0] == weight[1] | one number of a bias for each output
        fits x: x[-1] == weight[0] | as many columns as its weight has rows
        sizes y: [*x[:-1], weight[1]]
    """

    def evaluate(self, run: Run) -> None:
        x, weight = run.array(self.x), run.array(self.weight)
        start = run.array(self.bias) if self.bias else None
        y = numerics.float_product(x.reshape(prod(x.shape[:-1]), x.shape[-1]), weight, start)
        run.bind(self.y, y.reshape(*x.shape[:-1], weight.shape[1]))

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * shape_of(self.weight)[0]
