"""The step for a product of floats with a constant matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
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

    def check(self, checker: Checker) -> None:
        shape = checker.sizes(self.weight)
        checker.that(min(shape) > 0, self.weight, "weights that are not empty")
        checker.one_rank(self.x, self.y)
        checker.floats(self.x, self.y)
        check_bias(checker, self.bias, shape[1])

    def output_shape(self, sizes: Sizes) -> Shape:
        x, (inputs, outputs) = sizes.of(self.x), sizes.of(self.weight)
        if x[-1] != inputs:
            raise mismatch(self.x, f"{x[-1]} columns", f"{inputs}, the rows of its weight")
        return *x[:-1], outputs

    def evaluate(self, run: Run) -> None:
        x, weight = run.array(self.x), run.array(self.weight)
        start = run.array(self.bias) if self.bias else None
        y = numerics.float_product(x.reshape(prod(x.shape[:-1]), x.shape[-1]), weight, start)
        run.bind(self.y, y.reshape(*x.shape[:-1], weight.shape[1]))

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * shape_of(self.weight)[0]


def check_filters_of_floats(checker: Checker, weight: str, bias: str, groups: int) -> None:
    """Refuse weights [out, ...] that are empty or do not fall into groups, and a bias that does not fit."""
    shape = checker.sizes(weight)
    checker.that(min(shape) > 0, shape, "weights that are not empty")
    checker.that(groups > 0 and shape[0] % groups == 0, f"{groups} groups", f"a divisor of {shape[0]}")
    check_bias(checker, bias, shape[0])


def check_bias(checker: Checker, bias: str, outputs: int) -> None:
    """Refuse a bias that has not one number for each output channel."""
    checker.that(not bias or checker.sizes(bias) == (outputs,), bias, f"a bias of {outputs} numbers")
