"""The step that gathers elements, with one index along an axis for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps.base.indices import check_index_sizes, check_rows
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Write


@dataclass(frozen=True)
class GatherElements(Step):
    """``y[i, j, ...] = x[index[i, j, ...], j, ...]``, where axis is 0.

    Attributes:
        index: int32 or int64, with as many axes as x and no more elements along the others. Negative ones
            count from the end; what is out of range is an error.
    """

    kind = "gather_elements"
    x: Operand
    index: Operand
    y: Write
    axis: int

    rules = """
        0 <= axis < rank(x) | an axis of x
        one_rank(x, index, y)
        types(index, 'int32', 'int64')
        one_dtype(x, y)
        one_grid(x, y)
        fits index: fits_in(index, x, axis) | no more elements than x along other axes
        sizes y: index
    """

    def evaluate(self, run: Run) -> None:
        x, index = run.array(self.x), run.array(self.index)
        check_index_sizes(self.index, index.shape, x.shape, self.axis)
        self.check_index(index, x.shape, f"tensor '{self.index}'")
        within = tuple(slice(None) if a == self.axis else slice(n) for a, n in enumerate(index.shape))
        run.bind(self.y, np.take_along_axis(x[within], index.astype(np.int64), self.axis))

    def check_index(self, index: NDArray[Any], shape: Shape, where: str) -> None:
        """Refuse indices that x, of a shape, does not have.

        Raises:
            QuantValueError: One is out of range; names `where`.
        """
        check_rows(index, shape[self.axis], where)
