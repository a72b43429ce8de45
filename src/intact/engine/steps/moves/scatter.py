"""Elements and rows written, or read, where indices say."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step, Traits
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Write
from intact.engine.steps.moves.gather import check_index_sizes, check_rows
from intact.numerics.scatter_elements import REDUCTIONS, SCATTER_DTYPES, scatter_elements
from intact.numerics.scatter_rows import row_numbers, scatter_rows


@dataclass(frozen=True)
class ScatterElements(Step):
    """x with ``x[index[i, j, ...], j, ...] = updates[i, j, ...]``, where axis is 0 (N58).

    Attributes:
        index: int32 or int64, with as many axes as x and no more elements along the others. Negative ones
            count from the end; what is out of range is an error.
        updates: Of its shape, and of the dtype, or the grid, of x.
        reduction: What becomes of both: one of `numerics.scatter_elements.REDUCTIONS`; of codes "none".
    """

    kind = "scatter_elements"
    traits = Traits(strided=True)
    x: Operand
    index: Operand
    updates: Operand
    y: Write
    axis: int
    reduction: str = "none"

    def check(self, checker: Checker) -> None:
        checker.one_rank(self.x, self.index, self.updates, self.y)
        checker.axis(self.x, self.axis)
        _check_scattered(checker, self)

    def output_shape(self, sizes: Sizes) -> Shape:
        x, index, updates = (sizes.of(name) for name in (self.x, self.index, self.updates))
        check_index_sizes(self.index, index, x, self.axis)
        if updates != index:
            raise mismatch(self.updates, f"shape {updates}", f"that of '{self.index}', {index}")
        return x

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


@dataclass(frozen=True)
class ScatterRows(Step):
    """Rows of x [rows, width] that tuples of indices choose become updates [n, width] (N58).

    Attributes:
        index: int32 or int64 [n, axes]. Negative ones count from the end; what is out of range is an error.
        sizes: The axes that the rows of x are, one behind the other.
        reduction: As in `ScatterElements`.
    """

    kind = "scatter_rows"
    x: Operand
    index: Operand
    updates: Operand
    y: Write
    sizes: tuple[int, ...]
    reduction: str = "none"

    def check(self, checker: Checker) -> None:
        ranks = checker.rank(self.x, self.index, self.updates, self.y)
        checker.that(set(ranks) == {2}, ranks, "matrices")
        checker.that(bool(self.sizes) and min(self.sizes) >= 0, self.sizes, "sizes of axes")
        _check_scattered(checker, self)

    def output_shape(self, sizes: Sizes) -> Shape:
        x, index, updates = (sizes.of(name) for name in (self.x, self.index, self.updates))
        if index[1] != len(self.sizes) or x[0] != prod(self.sizes):
            raise mismatch(self.index, f"shape {index}, with x {x}", f"tuples for sizes {self.sizes}")
        if updates != (index[0], x[1]):
            raise mismatch(self.updates, f"shape {updates}", f"{(index[0], x[1])}")
        return x

    def evaluate(self, run: Run) -> None:
        x, index = run.array(self.x), run.array(self.index)
        self.check_index(index, x.shape, f"tensor '{self.index}'")
        run.bind(self.y, scatter_rows(x, index, run.array(self.updates), self.sizes, self.reduction))

    def check_index(self, index: NDArray[Any], shape: Shape, where: str) -> None:
        """As that of `ScatterElements`."""
        _check_tuples(index, self.sizes, where)


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
        """Of x, in each of which tuples count."""
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
        """As that of `ScatterElements`."""
        _check_tuples(index, self.sizes, where)


def _check_scattered(checker: Checker, step: ScatterElements | ScatterRows) -> None:
    checker.index(step.index)
    checker.one_dtype(step.x, step.updates, step.y)
    checker.that(step.reduction in REDUCTIONS, step.reduction, f"one of {', '.join(REDUCTIONS)}")
    dtype = checker.dtype(step.x)
    combines = step.reduction == "none" or dtype in SCATTER_DTYPES
    checker.that(combines, f"{step.reduction} of {dtype}", f"one of {', '.join(SCATTER_DTYPES)}")
    grids = [checker.grid(name) for name in (step.x, step.updates, step.y)]
    same = {None if g is None else (g.scale, g.zero_point, g.signed, g.offset) for g in grids}
    checker.that(len(same) == 1, f"'{step.x}', '{step.updates}', '{step.y}'", "one grid")
    if grids[0] is not None and grids[1] is not None and grids[2] is not None:
        ends = min(grids[0].low, grids[1].low), max(grids[0].high, grids[1].high)
        checker.that(
            grids[2].low <= ends[0] and ends[1] <= grids[2].high, f"'{step.y}'", "room for all codes"
        )


def _check_tuples(index: NDArray[Any], sizes: tuple[int, ...], where: str) -> None:
    for axis, size in enumerate(sizes):
        check_rows(index[:, axis], size, where)
