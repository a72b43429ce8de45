"""The step for a product of floats with weights in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated

import numpy as np

from intact import numerics
from intact.engine.steps.base.block_constants import BlockConstants
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Read, Write
from intact.engine.steps.products.block_linear import misfit, sizes_of_rows
from intact.engine.steps.products.float_linear import check_bias


@dataclass(frozen=True)
class BlockFloatLinear(BlockConstants, Step):
    """Floats x [..., in] times the floats of weights in blocks (N67), from the bias [out] on (N51).

    The weights have a row for each output.
    """

    kind = "block_float_linear"
    x: Read
    y: Write
    bias: Annotated[str, Const("float32", 1)] = ""

    def check(self, checker: Checker) -> None:
        self.check_weights(checker)
        check_bias(checker, self.bias, checker.sizes(self.weight)[0])
        checker.one_rank(self.x, self.y)
        checker.floats(self.x, self.y)
        why = misfit(self.inputs, self.block, self.inputs)
        checker.that(not why, why, "blocks that kernels multiply")

    def output_shape(self, sizes: Sizes) -> Shape:
        x = sizes_of_rows(sizes, self.x, self.inputs)
        return *x[:-1], sizes.of(self.weight)[0]

    def evaluate(self, run: Run) -> None:
        x = run.array(self.x)
        weight = np.ascontiguousarray(numerics.dequantize_blocks(self.weights(run.array)).T)
        start = run.array(self.bias) if self.bias else None
        y = numerics.float_product(x.reshape(prod(x.shape[:-1]), x.shape[-1]), weight, start)
        run.bind(self.y, y.reshape(*x.shape[:-1], weight.shape[1]))

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * self.inputs
