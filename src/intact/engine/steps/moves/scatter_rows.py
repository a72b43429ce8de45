"""The step that scatters rows to tuples of indices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intact.engine.steps.base.dims import Dim, values_of
from intact.engine.steps.base.indices import check_tuples
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
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

    rules = """
        ranks(2, x, index, updates, y)
        len(sizes) > 0 and least(sizes) >= 0 | sizes of axes
        scatters(x, index, updates, y, reduction)
        fits index: index[1] == len(sizes) and x[0] == prod(numbers(sizes)) | tuples for the sizes of the rows
        fits updates: [*updates] == [index[0], x[1]] | a row for each tuple
    """

    def numbers(self, free_sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the sizes, from the free ones by name."""
        return values_of(self.sizes, free_sizes, f"step '{self.name}'")

    def evaluate(self, run: Run) -> None:
        x, index, sizes = run.array(self.x), run.array(self.index), self.numbers(run.sizes)
        check_tuples(index, sizes, f"tensor '{self.index}'")
        run.bind(self.y, scatter_rows(x, index, run.array(self.updates), sizes, self.reduction))
