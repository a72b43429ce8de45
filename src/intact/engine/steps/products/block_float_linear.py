"""The step for a product of floats with weights in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated

import numpy as np

from intact import numerics
from intact.engine.steps.base.block_constants import BlockConstants
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Read, Write


@dataclass(frozen=True)
class BlockFloatLinear(BlockConstants, Step):
    """Floats x [..., in] times the floats of weights in blocks (N67), from the bias [out] on (N51).

    The weights have a row for each output.
    """

    kind = "block_float_linear"
    x: Read
    y: Write
    bias: Annotated[str, Const("float32", 1)] = ""

    rules = """
        not bias or bias[0] == weight[0] | one number of a bias for each output
        one_rank(x, y)
        floats(x, y)
        blocks_fit(inputs, block, inputs) | blocks that kernels multiply
        fits x: x[-1] == inputs | as many columns as its weight has
        sizes y: [*x[:-1], weight[0]]
    """

    def evaluate(self, run: Run) -> None:
        x = run.array(self.x)
        weight = np.ascontiguousarray(numerics.dequantize_blocks(self.weights(run.array)).T)
        start = run.array(self.bias) if self.bias else None
        y = numerics.float_product(x.reshape(prod(x.shape[:-1]), x.shape[-1]), weight, start)
        run.bind(self.y, y.reshape(*x.shape[:-1], weight.shape[1]))

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * self.inputs
