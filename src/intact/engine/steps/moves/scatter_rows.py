"""The step that scatters rows to tuples of indices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.dims import Dim, values_of
from intact.engine.steps.base.indices import check_scattered, check_tuples
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Write
from intact.numerics import scatter_rows


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
    sizes: tuple[Dim, ...]
    reduction: str = "none"

    def check(self, checker: Checker) -> None:
        ranks = checker.rank(self.x, self.index, self.updates, self.y)
        checker.that(set(ranks) == {2}, ranks, "matrices")
        numbers = [size for size in self.sizes if isinstance(size, int)]
        checker.that(bool(self.sizes) and min(numbers, default=0) >= 0, self.sizes, "sizes of axes")
        check_scattered(checker, self.x, self.index, self.updates, self.y, self.reduction)

    def output_shape(self, sizes: Sizes) -> Shape:
        x, index, updates = (sizes.of(name) for name in (self.x, self.index, self.updates))
        if index[1] != len(self.sizes) or x[0] != prod(self.numbers(sizes.dims)):
            raise mismatch(self.index, f"shape {index}, with x {x}", f"tuples for sizes {self.sizes}")
        if updates != (index[0], x[1]):
            raise mismatch(self.updates, f"shape {updates}", f"{(index[0], x[1])}")
        return x

    def numbers(self, free_sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the sizes, from the free ones by name."""
        return values_of(self.sizes, free_sizes, f"step '{self.name}'")

    def evaluate(self, run: Run) -> None:
        x, index, sizes = run.array(self.x), run.array(self.index), self.numbers(run.sizes)
        check_tuples(index, sizes, f"tensor '{self.index}'")
        run.bind(self.y, scatter_rows(x, index, run.array(self.updates), sizes, self.reduction))
