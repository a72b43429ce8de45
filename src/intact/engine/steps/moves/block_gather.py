"""The step that gathers rows of a table of codes in blocks, as floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.block_constants import BlockConstants
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.indices import check_rows
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
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

    def check(self, checker: Checker) -> None:
        self.check_weights(checker)
        checker.floats(self.y)
        checker.index(self.index)
        index, y = ranks = checker.rank(self.index, self.y)
        checker.that(y == index + 1, ranks, "a row for each index")

    def output_shape(self, sizes: Sizes) -> Shape:
        return *sizes.of(self.index), self.inputs

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
