"""Check the indices that steps read."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.sizes import mismatch
from intact.engine.steps.base.tensors import Shape
from intact.errors import QuantValueError
from intact.numerics import SCATTER_DTYPES, SCATTER_REDUCTIONS


def check_rows(index: NDArray[Any], size: int, where: str) -> None:
    """Refuse indices of rows that a tensor of `size` rows does not have; negative ones count from the end.

    Raises:
        QuantValueError: One is out of range; names `where`.
    """
    if index.size and not -size <= (low := int(index.min())) <= (high := int(index.max())) < size:
        got = low if low < -size else high
        raise QuantValueError(where, f"index {got}", f"{-size} to {size - 1}", "give rows that are there")


def check_index_sizes(name: str, index: Shape, x: Shape, axis: int) -> None:
    """Refuse more indices than x has elements, along any axis but the indexed one.

    Raises:
        QuantValueError: There are more; names the tensor of indices.
    """
    for other, (size, wanted) in enumerate(zip(x, index, strict=True)):
        if other != axis and wanted > size:
            raise mismatch(name, f"size {wanted} in dimension {other}", f"{size} at most")


def check_tuples(index: NDArray[Any], sizes: tuple[int, ...], where: str) -> None:
    """Refuse tuples of indices of rows that axes of these sizes do not have; errors as for `check_rows`."""
    for axis, size in enumerate(sizes):
        check_rows(index[:, axis], size, where)


def check_scattered(checker: Checker, x: str, index: str, updates: str, y: str, reduction: str) -> None:
    """Refuse updates that cannot be written onto x: of another dtype or grid, or combined as no kernel does.

    Raises:
        FileFormatError: Names the step.
    """
    checker.types([index], ("int32", "int64"))
    checker.one_dtype(x, updates, y)
    checker.that(reduction in SCATTER_REDUCTIONS, reduction, f"one of {', '.join(SCATTER_REDUCTIONS)}")
    dtype = checker.dtype(x)
    combines = reduction == "none" or dtype in SCATTER_DTYPES
    checker.that(combines, f"{reduction} of {dtype}", f"one of {', '.join(SCATTER_DTYPES)}")
    grids = [checker.grid(name) for name in (x, updates, y)]
    same = {None if g is None else (g.scale, g.zero_point, g.signed, g.offset) for g in grids}
    checker.that(len(same) == 1, f"'{x}', '{updates}', '{y}'", "one grid")
    if grids[0] is not None and grids[1] is not None and grids[2] is not None:
        ends = min(grids[0].low, grids[1].low), max(grids[0].high, grids[1].high)
        checker.that(grids[2].low <= ends[0] and ends[1] <= grids[2].high, f"'{y}'", "room for all codes")
