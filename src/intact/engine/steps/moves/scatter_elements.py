"""The step that scatters elements to indices along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from intact.engine.steps.base.indices import check_rows
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Write
from intact.numerics import scatter_elements


@dataclass(frozen=True)
class ScatterElements(Step):
    """x with ``x[index[i, j, ...], j, ...] = updates[i, j, ...]``, where axis is 0 (N58).

    Attributes:
        index: int32 or int64, with as many axes as x and no more elements along the others. Negative ones
            count from the end; what is out of range is an error.
        updates: Of its shape, and of the dtype, or the grid, of x.
        reduction: What becomes of both: one of `numerics.SCATTER_REDUCTIONS`; of codes "none".
    """

    kind = "scatter_elements"
    x: Operand
    index: Operand
    updates: Operand
    y: Write
    axis: int
    reduction: str = "none"

    rules = """
        0 <= axis < rank(x) | an axis of x
        one_rank(x, index, updates, y)
        scatters(x, index, updates, y, reduction)
        fits index: fits_in(index, x, axis) | no more elements than x along other axes
        fits updates: [*updates] == [*index] | one for each index
    """

    def evaluate(self, run: Run) -> None:
        x, index = run.array(self.x), run.array(self.index)
        self.check_index(index, x.shape, f"tensor '{self.index}'")
        run.bind(self.y, scatter_elements(x, index, run.array(self.updates), self.axis, self.reduction))

    def check_index(self, index: NDArray[Any], shape: Shape, where: str) -> None:
        """Refuse indices that x, of a shape, does not have.

        Raises:
            QuantValueError: One is out of range; names `where`.
        """
        check_rows(index, shape[self.axis], where)
