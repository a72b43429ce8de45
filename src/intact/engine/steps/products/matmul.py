"""The step for a product of two tensors of codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.epilogue import FILED, Epilogue
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class MatMul(Step):
    """Product of two activations of codes, [..., i, k] by [..., k, j], leading axes broadcast.

    `epilogue` has one multiplier; a factor that follows (1 / sqrt(d)) is part of it. No bias, no residual.
    """

    kind = "matmul"
    a: Read
    b: Read
    y: Write
    epilogue: Epilogue = field(metadata=FILED)

    rules = """
        rank(a) >= 2 and rank(b) >= 2 | rank 2 or more
        codes(a, b)
        sizes y: product(a, b)
    """

    def check(self, checker: Checker) -> None:
        self.epilogue.check(checker, 1)

    def evaluate(self, run: Run) -> None:
        a, b = run.array(self.a), run.array(self.b)
        acc = numerics.matmul(a, b, run.codes(self.a).zero_point, run.codes(self.b).zero_point)
        self.epilogue.evaluate(run, self.y, acc, axis=-1)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * shape_of(self.a)[-1]
