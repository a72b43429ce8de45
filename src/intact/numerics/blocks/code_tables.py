"""Codes of 4 bits as places in a table of their values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.numerics.blocks.block_weights import BlockWeights, block_minima, block_scales
from intact.numerics.blocks.code_values import OWN_TABLE, TABLE_SIZE

_CHUNK = 2**16
"""Codes that are looked at together."""


def has_whole_values(table: NDArray[np.float32]) -> bool:
    """Return whether all values are whole numbers that int8 holds, so that products of codes are exact."""
    return bool((np.abs(table + np.float32(0.5)) < 128).all() and (table == np.trunc(table)).all())


def has_exact_sums(weights: BlockWeights) -> bool:
    """Return whether the values of all codes are whole numbers, or of halves under scales that can be halved.

    Those of fp8 and nf4 are not: sums of products are rounded.
    """
    values = weights.values
    return values is None or has_whole_values(values) or _half_scales(weights, values) is not None


def with_table(weights: BlockWeights) -> BlockWeights:
    """Return the same weights as table4, where their codes have at most 16 values.

    These are the formats of 4 bits whose codes are indices, and integers of more bits that take few values.
    Values that are whole numbers of halves, those of fp4, become whole numbers, under half of the scales.
    Other weights are returned as they are.

    Rule N67.
    """
    values = weights.values
    if values is None:
        return _with_few_codes(weights)
    if values.size != TABLE_SIZE:
        return weights
    indexed = weights if weights.format == OWN_TABLE else replace(weights, format=OWN_TABLE, table=values)
    scales = None if has_whole_values(values) else _half_scales(weights, values)
    if scales is None:
        return indexed
    return replace(
        indexed, table=values * np.float32(2), scales=scales, minima=block_minima(weights), super_scales=None,
        super_minima=None, super_divides=False,
    )  # fmt: skip


def _half_scales(weights: BlockWeights, values: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """Return half of the scales, where values are whole numbers of halves and that is exact; else None."""
    scales = block_scales(weights)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        halves = scales * np.float32(0.5)
        is_exact = has_whole_values(values * np.float32(2)) and np.array_equal(
            halves * np.float32(2), scales, equal_nan=True
        )
    return halves if is_exact else None


def _with_few_codes(weights: BlockWeights) -> BlockWeights:
    points = weights.zero_points
    if weights.bits <= 4 or not weights.codes.size or (points is not None and points.dtype.kind not in "iu"):
        return weights
    zero = 0 if points is None else int(points.flat[0])
    if points is not None and not (points == zero).all():
        return weights
    places = np.zeros(256, np.uint8)
    codes = weights.codes.reshape(-1).view(np.uint8)
    for begin in range(0, codes.size, _CHUNK):
        places[codes[begin : begin + _CHUNK]] = 1
        if places.sum() > TABLE_SIZE:
            return weights
    used = np.flatnonzero(places).astype(np.uint8)
    places[used] = np.arange(used.size)
    table = np.zeros(TABLE_SIZE, np.float32)
    table[: used.size] = used.view(weights.codes.dtype).astype(np.float32) - np.float32(zero)
    if not has_whole_values(table):
        return weights
    indices = places[weights.codes.view(np.uint8)]
    return replace(weights, codes=indices, format=OWN_TABLE, table=table, zero_points=None)
