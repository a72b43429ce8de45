"""The step that gathers rows by tuples of indices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.indices import check_tuples
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Write
from intact.numerics import row_numbers


@dataclass(frozen=True)
class GatherRows(Step):
    """Rows of x that tuples of indices choose: y [n, width].

    Attributes:
        x: [parts * product of sizes, width]: the first tuples, one part of them, are those of its first rows.
        index: As in `ScatterRows`; as many tuples for each part.
        sizes: The axes that the rows of a part are, one behind the other.
    """

    kind = "gather_rows"
    x: Operand
    index: Operand
    y: Write
    sizes: tuple[int, ...]

    def check(self, checker: Checker) -> None:
        ranks = checker.rank(self.x, self.index, self.y)
        checker.that(set(ranks) == {2}, ranks, "matrices")
        checker.that(bool(self.sizes) and min(self.sizes) >= 0, self.sizes, "sizes of axes")
        checker.index(self.index)
        checker.one_dtype(self.x, self.y)
        checker.one_grid(self.x, self.y)

    def output_shape(self, sizes: Sizes) -> Shape:
        x, index = sizes.of(self.x), sizes.of(self.index)
        rows, parts = prod(self.sizes), self.parts(x)
        if index[1] != len(self.sizes) or x[0] != parts * rows:
            raise mismatch(self.index, f"shape {index}, with x {x}", f"tuples for sizes {self.sizes}")
        if index[0] % parts if parts else index[0]:
            raise mismatch(self.index, f"{index[0]} tuples", f"as many for each of {parts} parts")
        return index[0], x[1]

    def parts(self, x: Shape) -> int:
        """Return how many parts x has that tuples index separately."""
        rows = prod(self.sizes)
        return x[0] // rows if rows else 0

    def evaluate(self, run: Run) -> None:
        x, index = run.array(self.x), run.array(self.index)
        self.check_index(index, x.shape, f"tensor '{self.index}'")
        rows = row_numbers(index, self.sizes)
        if parts := self.parts(x.shape):
            rows = (rows.reshape(parts, -1) + prod(self.sizes) * np.arange(parts)[:, None]).reshape(-1)
        run.bind(self.y, x[rows])

    def check_index(self, index: NDArray[Any], shape: Shape, where: str) -> None:
        """Check the indices, as `ScatterElements` does."""
        check_tuples(index, self.sizes, where)
