"""The step that gathers the elements at indices along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps.base.indices import check_rows
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Write


@dataclass(frozen=True)
class Gather(Step):
    """``y[i, j, k] = x[i, index[j], k]`` of x, a tensor or a constant: i stands for the axes before `axis`, j
    for those of the index, k for those behind.

    Attributes:
        index: int32 or int64. Negative ones count from the end; what is out of range is an error.
    """

    kind = "gather"
    x: Operand
    index: Operand
    y: Write
    axis: int = 0

    rules = """
        0 <= axis < rank(x) | an axis of x
        rank(y) == rank(x) + rank(index) - 1 | all other axes for each index
        types(index, 'int32', 'int64')
        one_dtype(x, y)
        one_grid(x, y)
        sizes y: [*x[:axis], *index, *x[axis + 1 :]]
    """

    def evaluate(self, run: Run) -> None:
        x, index = run.array(self.x), run.array(self.index)
        self.check_index(index, x.shape, f"tensor '{self.index}'")
        run.bind(self.y, np.take(x, index, axis=self.axis))

    def check_index(self, index: NDArray[Any], shape: Shape, where: str) -> None:
        """Refuse indices beyond x, of a shape.

        Raises:
            QuantValueError: One is out of range; names `where`.
        """
        check_rows(index, shape[self.axis], where)
