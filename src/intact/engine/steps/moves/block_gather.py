"""The step that gathers rows of a table of codes in blocks, as floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.block_constants import BlockConstants
from intact.engine.steps.base.indices import check_rows
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Write


@dataclass(frozen=True)
class BlockGather(BlockConstants, Step):
    """Rows of a constant table of codes in blocks (N67): float32 [..., inputs].

    ``y[i] = fl32(fl32((q - z) * s) + m)`` of the row index[i].

    Attributes:
        index: int32 or int64. Negative ones count from the end; what is out of range is an error.
    """

    kind = "block_gather"
    index: Operand
    y: Write

    rules = """
        floats(y)
        types(index, 'int32', 'int64')
        rank(y) == rank(index) + 1 | a row for each index
        sizes y: [*index, inputs]
    """

    def evaluate(self, run: Run) -> None:
        index = run.array(self.index)
        self.check_index(index, run.array(self.weight).shape, f"tensor '{self.index}'")
        rows = self.weights(run.array, index.reshape(-1).astype(np.int64))
        run.bind(self.y, numerics.dequantize_blocks(rows).reshape(*index.shape, self.inputs))

    def check_index(self, index: NDArray[Any], shape: Shape, where: str) -> None:
        """Refuse indices beyond the table's rows, of its shape.

        Raises:
            QuantValueError: One is out of range; names `where`.
        """
        check_rows(index, shape[0], where)
