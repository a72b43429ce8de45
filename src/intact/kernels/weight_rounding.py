"""Error-compensating rounding of weights; each function equals its namesake in `intact.numerics`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.kernels import _native
from intact.kernels.registry import kernels_in_use

Doubles = NDArray[np.float64]


def moments(x: NDArray[np.float32], block: slice) -> tuple[Doubles, Doubles]:
    """Run `numerics.moments` natively.

    Raises:
        QuantValueError: `x` has another rank than 3, or the block has no column.
    """
    size = len(range(*block.indices(x.shape[-1])))
    if x.ndim != 3 or not x.size or not size or block.step not in (None, 1):
        raise QuantValueError(
            "x", f"shape {x.shape} for {block}", "[groups, rows, columns], and some of the columns",
            "give one matrix for each group",
        )  # fmt: skip
    (groups, rows, columns), x = x.shape, np.ascontiguousarray(x, np.float32)
    sums, products = np.empty((groups, size)), np.empty((groups, size, size))
    first = block.indices(columns)[0]
    _native.moments(kernels_in_use()["moments"], x, groups, rows, columns, first, sums, products)
    return sums, products


def unit_factor(matrices: Doubles) -> Doubles:
    """Run `numerics.unit_factor` natively."""
    factors = np.array(matrices, np.float64, order="C")
    _native.unit_factor(factors, factors.shape[1])
    return factors


def round_together(rows: Doubles, steps: Doubles, factors: Doubles, low: float, high: float) -> Doubles:
    """Run `numerics.round_together` natively."""
    rows, steps, factors = (np.ascontiguousarray(a, np.float64) for a in (rows, steps, factors))
    points, (groups, _, size) = np.empty(rows.shape), rows.shape
    _native.round_together(rows, steps, factors, groups, size, float(low), float(high), points)
    return points


def quadratic_forms(rows: Doubles, matrices: Doubles) -> Doubles:
    """Run `numerics.quadratic_forms` natively."""
    rows, matrices = (np.ascontiguousarray(a, np.float64) for a in (rows, matrices))
    forms, (groups, _, size) = np.empty(rows.shape[:2]), rows.shape
    _native.quadratic_forms(rows, matrices, groups, size, forms)
    return forms
