"""The step that repeats elements along axes of size 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, broadcast, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Write


@dataclass(frozen=True)
class Expand(Step):
    """x, a tensor or a constant, broadcast to y's shape.

    Sizes that y's shape leaves open are those of x. Source: ONNX, Expand.
    """

    kind = "expand"
    x: Operand
    y: Write

    rules = """
        rank(x) <= rank(y) | no fewer axes
        one_dtype(x, y)
        one_grid(x, y)
    """

    def output_shape(self, sizes: Sizes) -> Shape:
        return self._output_shape(sizes.of(self.x), sizes.partial_shape(self.y))

    def evaluate(self, run: Run) -> None:
        x = run.array(self.x)
        run.bind(self.y, np.broadcast_to(x, self._output_shape(x.shape, run.partial_shape(self.y))).copy())

    def _output_shape(self, x: Shape, declared: tuple[int | None, ...]) -> Shape:
        x = (1,) * (len(declared) - len(x)) + x
        shape = tuple(size if want is None else want for size, want in zip(x, declared, strict=True))
        if broadcast(self.x, shape, x) != shape:
            raise mismatch(self.x, f"shape {x}", f"one that broadcasts to {shape}")
        return shape
