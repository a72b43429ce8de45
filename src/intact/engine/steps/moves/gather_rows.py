"""The step that gathers rows by tuples of indices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from intact.engine.steps.base.dims import Dim, values_of
from intact.engine.steps.base.indices import check_tuples
from intact.engine.steps.base.run import Run
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
    sizes: tuple[Dim, ...]

    rules = """
        ranks(2, x, index, y)
        len(sizes) > 0 and least(sizes) >= 0 | sizes of axes
        types(index, 'int32', 'int64')
        one_dtype(x, y)
        one_grid(x, y)
        rows = prod(numbers(sizes))
        parts = x[0] // rows if rows else 0
        fits index: index[1] == len(sizes) and x[0] == parts * rows | tuples for the sizes of the rows
        fits index: index[0] % parts == 0 if parts else index[0] == 0 | as many for each part of x
        sizes y: [index[0], x[1]]
    """

    def numbers(self, free_sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the sizes, from the free ones by name."""
        return values_of(self.sizes, free_sizes, f"step '{self.name}'")

    def _parts(self, x: Shape, free_sizes: Mapping[str, int]) -> tuple[int, int]:
        """Return how many parts x has that tuples index separately, and the rows of each."""
        rows = prod(self.numbers(free_sizes))
        return (x[0] // rows if rows else 0), rows

    def evaluate(self, run: Run) -> None:
        x, index = run.array(self.x), run.array(self.index)
        sizes = self.numbers(run.sizes)
        check_tuples(index, sizes, f"tensor '{self.index}'")
        rows, (parts, each) = row_numbers(index, sizes), self._parts(x.shape, run.sizes)
        if parts:
            rows = (rows.reshape(parts, -1) + each * np.arange(parts)[:, None]).reshape(-1)
        run.bind(self.y, x[rows])
