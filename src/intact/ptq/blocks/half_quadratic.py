"""Fits scales and zero points to a norm of the errors below 2, without data: outliers may err more.

The norm sum |w - s (q - z)|^p, p < 2, is split into two steps that take turns (half-quadratic splitting): the
errors that stay are shrunk, e = shrink(w - s (q - z)), and s and z are the least-squares solution for w - e.
Errors count in steps, so that one strength fits weights of any size.
Source: Badri and Shaji 2023 (HQQ), which moves zero points alone, with p = 0.7;
the shrinkage is that of Xu et al. 2012.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics import BlockWeights
from intact.ptq.blocks.block_format import BlockFormat, Reals
from intact.ptq.blocks.fit_scales import nearest_codes, round_to_nearest, short_scales

POWER = 1.5
"""Cosine of MiniLM-L6 with int4 in blocks of 32: 0.9508 with 0.7 as in the source, 0.9530 with 1, 0.9536 with
1.5, and 0.9520 by `round_to_nearest`; with int3 all are below its 0.891, and this least, 0.886."""

ROUNDS = 20
_STRENGTH = 10.0  # of the quadratic term, in steps; grows by this factor each round:
_GROWTH = 1.01
_TINY = np.float32(2.0**-100)


def round_half_quadratic(weight: Reals, grid: BlockFormat) -> BlockWeights:
    """Round weights to codes whose errors have a small p-norm.

    Args:
        weight: float32 [N, K].
        grid: Format and block size.
    Returns:
        Weights [N, K] on `grid`; never of a larger norm than those of `round_to_nearest`.
    """
    outputs, size = weight.shape
    start = round_to_nearest(weight, grid)
    width = min(grid.block_size, size)
    blocks = -(-size // width)
    tiles = np.zeros((outputs, blocks * width), np.float32)
    tiles[:, :size] = weight
    tiles = tiles.reshape(outputs, blocks, width)
    counts = (np.arange(blocks * width) < size).reshape(blocks, width).astype(np.float32)
    scale = start.scales.astype(np.float32)
    point = np.zeros_like(scale) if start.zero_points is None else start.zero_points.astype(np.float32)
    best = scale, point
    least = _norms(tiles, scale, point, grid, counts)
    strength = _STRENGTH
    for _ in range(ROUNDS):
        codes = nearest_codes(tiles, scale[..., None], point[..., None], grid)
        error = tiles / scale[..., None] - (codes - point[..., None])
        target = tiles - _shrink(error, strength) * scale[..., None]
        scale, point = _least_squares(target, codes, scale, point, grid, counts)
        norms = _norms(tiles, scale, point, grid, counts)
        better = norms < least
        least = np.where(better, norms, least)
        best = np.where(better, scale, best[0]), np.where(better, point, best[1])
        strength *= _GROWTH
    scale, point = best
    codes = nearest_codes(tiles, scale[..., None], point[..., None], grid)
    return grid.weights(codes.reshape(outputs, -1)[:, :size], scale, point)


def _shrink(error: Reals, strength: float) -> Reals:
    """Return what stays of errors in steps: sign(e) max(|e| - |e|^(p - 1) / strength, 0)."""
    size = np.abs(error)
    less = np.maximum(size, np.float32(1e-6)) ** np.float32(POWER - 1) / np.float32(strength)
    return np.asarray(np.sign(error) * np.maximum(size - less, 0))


def _least_squares(
    target: Reals, codes: Reals, scale: Reals, point: Reals, grid: BlockFormat, counts: Reals
) -> tuple[Reals, Reals]:
    """Return scales and zero points with which the codes are nearest to a target, [N, blocks] each."""
    if not grid.symmetric:
        number = counts.sum(-1)
        mean_q = (codes * counts).sum(-1) / number
        mean_w = (target * counts).sum(-1) / number
        spread = codes - mean_q[..., None]
        square = (spread * spread * counts).sum(-1)
        slope = (spread * target * counts).sum(-1) / np.maximum(square, _TINY)
        slope = np.where((square > 0) & (slope > _TINY), slope, scale)
        point = np.clip(np.rint(mean_q - mean_w / slope), grid.low, grid.high)
    steps = codes - point[..., None]
    square = (steps * steps * counts).sum(-1)
    moved = short_scales((steps * target * counts).sum(-1) / np.maximum(square, _TINY))
    return np.where(square > 0, moved, scale), point


def _norms(tiles: Reals, scale: Reals, point: Reals, grid: BlockFormat, counts: Reals) -> NDArray[np.float32]:
    """Return sum |w - s (q - z)|^p of each block, with the nearest codes, [N, blocks]."""
    codes = nearest_codes(tiles, scale[..., None], point[..., None], grid)
    errors = np.abs(tiles - (codes - point[..., None]) * scale[..., None])
    return np.asarray((errors ** np.float32(POWER) * counts).sum(-1))
