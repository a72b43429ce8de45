"""The step for numbers that follow from the sizes of the plan's inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.dims import Dim, values_of
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Write


@dataclass(frozen=True)
class SizeVector(Step):
    """Sizes as a tensor: ONNX's Shape, and arithmetic with what it makes.

    Attributes:
        y: int64, a vector, or a scalar of one size.
        sizes: Numbers, free sizes of the plan's inputs, and expressions of these.
    """

    kind = "size_vector"
    y: Write
    sizes: tuple[Dim, ...]

    rules = """
        types(y, 'int64')
        rank(y) == 1 or rank(y) == 0 and len(sizes) == 1 | a vector, or a size
        sizes y: [len(sizes)] if rank(y) else []
    """

    def evaluate(self, run: Run) -> None:
        """Look the sizes up; errors as for `values_of`."""
        values = values_of(self.sizes, run.sizes, f"step '{self.name}'")
        shape = (len(values),) if run.partial_shape(self.y) else ()
        run.bind(self.y, np.array(values, np.int64).reshape(shape))
