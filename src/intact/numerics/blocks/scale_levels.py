"""Scales and minima of two levels: integers of blocks under floats of super-blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.numerics.blocks.block_weights import BlockWeights, block_minima, block_scales

_LARGEST = np.iinfo(np.int8).max


def split_levels(weights: BlockWeights) -> dict[str, NDArray]:
    """Return scales and minima as steps read them, by name.

    ``scales`` and ``minima`` are float32 [..., blocks]. Integers that int8 holds stay: ``sub_scales`` and
    ``sub_minima`` are int8 [..., blocks], and the floats are those of super-blocks, [..., supers]. What the
    weights lack is left out.
    """
    arrays = _levels("scales", weights.scales, weights.super_scales, block_scales(weights))
    if (minima := block_minima(weights)) is not None and weights.minima is not None:
        arrays |= _levels("minima", weights.minima, weights.super_minima, minima)
    return arrays


def join_levels(weights: BlockWeights) -> BlockWeights:
    """Return weights whose scales and minima have one level, float32: the products of the two (N67).

    Rule N69.
    """
    return replace(
        weights, scales=block_scales(weights), minima=block_minima(weights), super_scales=None,
        super_minima=None, super_divides=False,
    )  # fmt: skip


def _levels(
    name: str, fine: NDArray, coarse: NDArray | None, product: NDArray[np.float32]
) -> dict[str, NDArray]:
    is_small = fine.dtype.kind in "iu" and fine.size > 0 and fine.max() <= _LARGEST
    if coarse is None or not is_small or (coarse.ndim and coarse.shape == fine.shape):
        return {name: product}
    supers = coarse if coarse.ndim else np.broadcast_to(coarse, (*fine.shape[:-1], 1))
    return {name: supers.astype(np.float32), f"sub_{name}": fine.astype(np.int8)}
