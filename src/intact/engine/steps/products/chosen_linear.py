"""Product with constant matrices, of which each row has one or several that indices choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.epilogue import FILED, Epilogue
from intact.engine.steps.base.indices import check_rows
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Operand, Read, Write


@dataclass(frozen=True)
class ChosenLinear(Step):
    """Multiplies rows of x [..., in] by the matrices that indices choose: y [n, out / groups].

    What `Linear` with all matrices side by side makes, of which a row keeps the columns of those that it
    chooses: the experts of a transformer.

    Attributes:
        x: Codes.
        index: int32 or int64 [n, 1], as many for each row of x. Negative ones count from the end; what is out
            of range is an error.
        weight: int8 [out, in], transposed: the columns of the first matrix, then those of the next.
        groups: How many matrices there are.
        epilogue: Of all columns; without a residual.
    """

    kind = "chosen_linear"
    x: Read
    index: Operand
    y: Write
    weight: Annotated[str, Const("int8", 2)]
    groups: int
    epilogue: Epilogue = field(metadata=FILED)

    rules = """
        min(weight) > 0 and max(weight) <= 2 ** 24 | weights that are not empty
        groups > 0 and weight[0] % groups == 0 | as many columns for each matrix
        rank(x) > 0 | rows
        ranks(2, index, y)
        types(index, 'int32', 'int64')
        codes(x)
        rows = prod(x[:-1])
        fits index: index[1] == 1 and (index[0] % rows == 0 if rows else index[0] == 0) | as many for each row
        sizes y: [index[0], weight[0] // groups]
    """

    def check(self, checker: Checker) -> None:
        self.epilogue.check(checker, checker.sizes(self.weight)[0])
        checker.that(not self.epilogue.residual, "a residual", "none, where rows choose")

    def evaluate(self, run: Run) -> None:
        x, index = run.array(self.x), run.array(self.index).reshape(-1)
        self.check_index(index, x.shape, f"tensor '{self.index}'")
        weight, zero_point = run.array(self.weight), run.codes(self.x).zero_point
        acc = numerics.linear(
            x.reshape(-1, x.shape[-1]), weight, zero_point, bias=self.epilogue.integer_addends(run)
        )
        values = self.epilogue.apply(run, self.y, acc, axis=-1)
        each = index.size // len(acc) if len(acc) else 1
        parts = values.reshape(len(acc), self.groups, len(weight) // self.groups)
        self.epilogue.write(run, self.y, parts[np.arange(index.size) // each, index])

    def check_index(self, index: NDArray[Any], shape: Shape, where: str) -> None:
        """Refuse indices of matrices that are not there; `shape` is that of x.

        Raises:
            QuantValueError: One is out of range; names `where`.
        """
        check_rows(index, self.groups, where)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * shape_of(self.weight)[1]
