"""Scales and zero points of blocks that keep the squared error of rounding small.

For each block some scales around the one that the largest value asks for are tried. With the codes q of each
the best scale is s = sum(d w q) / sum(d q^2), and leaves sum(d w^2) - sum(d w q)^2 / sum(d q^2) of error. The
scale that leaves least is kept; d weighs the elements, as the mean squares of what they multiply.
Source: llama.cpp's make_qx_quants (signed scales: the largest magnitude gets the code -2^(bits-1));
the search of clipped ranges is that of OmniQuant's and AWQ's weight clipping.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics import BlockWeights
from intact.ptq.blocks.block_format import BlockFormat, Reals

TRIED = 20
"""Scales of each block that are tried: more lower the error by less than 1%."""

_AT_ONCE = 2**19  # elements: 2 MB for each array of the search, which stays in a cache
_EXACT = 2**24  # whole numbers up to it are float32s
_TINY = np.float32(2.0**-100)
_DROPPED = 13  # bits of a float32's fraction beyond float16's


def round_to_nearest(
    weight: Reals, grid: BlockFormat, importance: NDArray | None = None, *, tried: int = TRIED
) -> BlockWeights:
    """Round weights to the nearest codes, with scales fitted to each block.

    Args:
        weight: float32 [N, K], K the axis that a product sums over.
        grid: Format and block size.
        importance: [K], not negative: by what the squared error of each column counts, as the mean square of
            what it multiplies. None: all alike.
        tried: How many scales of each block are tried.
    Returns:
        Weights [N, K] on `grid`.
    """
    weight = np.asarray(weight, np.float32)
    outputs, size = weight.shape
    width = min(grid.block_size, max(size, 1))
    blocks = -(-size // width)
    codes = np.empty((outputs, blocks * width), np.int16)
    scales, points = (np.empty((outputs, blocks), np.float32) for _ in range(2))
    counts = np.zeros(blocks * width, np.float32)
    counts[:size] = 1 if importance is None else np.maximum(importance, _TINY)
    rows = max(1, _AT_ONCE // (blocks * width))
    for begin in range(0, outputs, rows):
        part = slice(begin, min(begin + rows, outputs))
        padded = np.zeros((part.stop - begin, blocks * width), np.float32)
        padded[:, :size] = weight[part]
        tiles = padded.reshape(-1, blocks, width)
        scale, point = fit_scales(tiles, counts.reshape(blocks, width), grid, tried=tried)
        scales[part], points[part] = scale, point
        codes[part] = nearest_codes(tiles, scale[..., None], point[..., None], grid).reshape(len(padded), -1)
    return grid.weights(codes[:, :size], scales, points)


def fit_scales(
    blocks: Reals, importance: Reals, grid: BlockFormat, *, tried: int = TRIED
) -> tuple[Reals, Reals]:
    """Find the scale and the zero point of each block that round it with the least weighted squared error.

    Args:
        blocks: float32 [..., S], a block each.
        importance: Positive float32 that broadcasts against `blocks`.
        grid: Format of the codes.
        tried: How many scales of each block are tried.
    Returns:
        Scales and zero points, float32 [...]; 11 significant bits each, so that float16 holds them exactly
        where its range does. Scales are not 0, those of blocks of zeros 1.
    """
    low, high = blocks.min(-1), blocks.max(-1)
    counted = blocks * importance
    best_gain = np.zeros(low.shape, np.float32)
    scales, points = np.ones(low.shape, np.float32), np.zeros(low.shape, np.float32)
    buffer = np.empty_like(counted)
    all_alike = bool((importance == 1).all()) and counted.shape[-1] * (grid.high - grid.low) ** 2 <= _EXACT
    for share in _shares(grid, tried):
        if grid.symmetric:
            scale, point = np.where(-low > high, low, high) * np.float32(share / grid.low), None
        else:
            bottom, top = np.minimum(low, 0) * share, np.maximum(high, 0) * share
            scale = (top - bottom) / np.float32(grid.high - grid.low)
            scale = np.where(scale < _TINY, np.float32(1), scale)
            point = np.clip(np.rint(-bottom / scale), grid.low, grid.high)
        scale = np.where(np.abs(scale) < _TINY, np.float32(1), scale)
        multiples = _nearest_multiples(blocks, scale, point, grid, buffer)
        product = np.einsum("...s,...s->...", counted, multiples)
        if all_alike:  # sums of whole numbers: exact in any order, in an eighth of the time
            square = np.einsum("...s,...s->...", multiples, multiples)
        else:
            square = np.einsum("...s,...s,...s->...", multiples, multiples, importance)
        gain = product * product / np.maximum(square, _TINY)  # of sum(d w^2), with the best scale
        better = gain > best_gain
        best_gain = np.where(better, gain, best_gain)
        scales = np.where(better, short_scales(product / np.maximum(square, _TINY)), scales)
        points = points if point is None else np.where(better, point, points)
    return scales, points


def _nearest_multiples(
    blocks: Reals, scale: Reals, point: Reals | None, grid: BlockFormat, buffer: Reals
) -> Reals:
    """Return the multiples of the scale that are nearest to the elements of each block, in `buffer`."""
    np.multiply(blocks, (1 / scale)[..., None], out=buffer)
    np.rint(buffer, out=buffer)
    if point is None:
        return np.asarray(np.clip(buffer, grid.low, grid.high, out=buffer))
    low, high = (grid.low - point)[..., None], (grid.high - point)[..., None]
    return np.asarray(np.clip(buffer, low, high, out=buffer))


def nearest_codes(values: Reals, scales: Reals, points: Reals, grid: BlockFormat) -> Reals:
    """Return the nearest codes of `values`, whole numbers in float32; arguments broadcast.

    Args:
        values: float32, any shape.
        scales, points: Of their blocks, float32, of shapes that broadcast with `values`.
        grid: The format.
    Returns:
        float32, shape of the broadcast.
    """
    codes = np.rint(values / scales)
    codes += points
    return np.asarray(np.clip(codes, grid.low, grid.high, out=codes))


def short_scales(scales: Reals) -> Reals:
    """Round to 11 significant bits, ties to even; 1 for what is 0 or nearly so. float32, any shape."""
    bits = np.ascontiguousarray(scales, np.float32).view(np.uint32)
    half = np.uint32((1 << (_DROPPED - 1)) - 1)
    even = (bits >> np.uint32(_DROPPED)) & np.uint32(1)
    rounded = ((bits + half + even) & ~np.uint32((1 << _DROPPED) - 1)).view(np.float32)
    return np.asarray(np.where(np.abs(rounded) < _TINY, np.float32(1), rounded))


def _shares(grid: BlockFormat, tried: int) -> NDArray[np.float32]:
    """Return by what the range of a block is multiplied: few bits clip more."""
    unit = 2.0**-grid.bits
    least, most = max(1 - 4 * unit, 0.35), 1 + (2 * unit if grid.symmetric else 0)
    return np.linspace(most, least, tried, dtype=np.float32)
