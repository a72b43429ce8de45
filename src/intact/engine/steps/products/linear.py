"""The step for a product of codes with a constant matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.epilogue import FILED, Epilogue
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Read, Write
from intact.engine.steps.elements.split_quantize import check_low


@dataclass(frozen=True)
class Linear(Step):
    """x [..., in] times constant weights int8 [out, in], transposed (Gemm, MatMul).

    Attributes:
        x: Codes, or of codes of 16 bits the high bytes.
        low: The low bytes, where x is the high ones (N62).
        shift: Their sums are rounded to multiples of 2^shift, in which the output counts.
    """

    kind = "linear"
    x: Read
    y: Write
    weight: Annotated[str, Const("int8", 2)]
    epilogue: Epilogue = field(metadata=FILED)
    low: Read = ""
    shift: int = 0

    rules = """
        min(weight) > 0 and max(weight) <= 2 ** 24 | weights that are not empty
        one_rank(x, y)
        codes(x)
        sizes y: [*x[:-1], weight[0]]
    """

    def check(self, checker: Checker) -> None:
        check_low(checker, self.x, self.low, self.shift)
        self.epilogue.check(checker, checker.sizes(self.weight)[0])

    def evaluate(self, run: Run) -> None:
        acc = self._sums(run, self.low or self.x, self.epilogue.integer_addends(run))
        if self.low:
            acc = numerics.join_sums(self._sums(run, self.x, None), acc, self.shift)
        self.epilogue.evaluate(run, self.y, acc, axis=-1)

    def _sums(self, run: Run, x: str, bias: NDArray[np.int32] | None) -> NDArray[np.int32]:
        return numerics.linear(run.array(x), run.array(self.weight), run.codes(x).zero_point, bias=bias)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * shape_of(self.weight)[1]
