"""Store weights in blocks as constants of a plan."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.steps.base.block_constants import misfit
from intact.numerics import TABLE_SIZE, BlockWeights, join_stream, split_levels, with_table

_FIRST = 64  # elements that are compared before all are


def has_block_codes(weights: BlockWeights) -> bool:
    """Return whether steps read them as they are: integers, or indices of 16 values, in blocks of kernels."""
    zero, values = weights.zero_points, weights.values
    inputs = weights.shape[-1]
    return (
        (values is None or values.size == TABLE_SIZE)
        and (zero is None or zero.dtype.kind in "iu")
        and weights.groups is None
        and weights.codes.size > 0
        and weights.codes.ndim == 2
        and not misfit(inputs, weights.block_size, inputs)
    )


def hold_blocks(builder: PlanBuilder, base: str, weights: BlockWeights) -> dict[str, Any]:
    """Return the fields of a step for its weights, which `has_block_codes` accepts.

    Codes with a sign are stored without it, and those of few values as indices of a table. Layers that read
    equal arrays share them, whatever these are called: a table that is gathered from and multiplied by is
    stored once.
    """
    weights = with_table(weights)
    codes, zero = _without_sign(weights)

    def hold(part: str, array: NDArray[Any] | None) -> str:
        return "" if array is None else _find_equal(builder, array) or builder.hold(f"{base}.{part}", array)

    return {
        "weight": hold("codes", join_stream(codes, weights.bits, 1)),
        **{name: hold(name, array) for name, array in split_levels(weights).items()},
        "inputs": weights.shape[1], "bits": weights.bits, "block": weights.block_size,
        "zero_points": hold("zero_points", zero), "table": hold("table", weights.table),
    }  # fmt: skip


def _find_equal(builder: PlanBuilder, array: NDArray[Any]) -> str | None:
    first = array.reshape(-1)[:_FIRST].tobytes()
    for name, other in builder.arrays.items():
        is_alike = (other.dtype, other.shape) == (array.dtype, array.shape)
        if is_alike and other.reshape(-1)[:_FIRST].tobytes() == first and other.tobytes() == array.tobytes():
            return name
    return None


def _without_sign(weights: BlockWeights) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None]:
    """Return codes and zero points without a sign; None where all zero points are half of the range."""
    if weights.table is not None:
        return weights.codes, None
    middle = 2 ** (weights.bits - 1)
    shift = middle if weights.codes.dtype == np.int8 else 0
    codes = weights.codes.view(np.uint8) + np.uint8(shift)  # which wraps around
    zero = np.zeros(weights.scales.shape, np.int16)
    if weights.zero_points is not None:
        zero = weights.zero_points.astype(np.int16)
    points = zero + np.int16(shift)
    return codes, None if (points == middle).all() else points.astype(np.uint8)
