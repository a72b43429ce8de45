"""Scales of input channels that make those with large inputs round finely (AWQ), or even out ranges.

A layer's product does not change when channel k of its input is divided by t_k and column k of its weights
multiplied by it; the rounding error of the column does: it counts 1 / t_k. t = m^a, m the mean magnitude of
the channel, is tried for some a, and the one with the least error of the outputs is taken.
Source: Lin et al. 2024 (AWQ), section 3.2; the error is measured by H = E[x x^T] instead of by the inputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics import dequantize_blocks
from intact.ptq.blocks.block_format import BlockFormat, Reals
from intact.ptq.blocks.fit_scales import round_to_nearest, short_scales

STRENGTH = 0.5
"""Of SmoothQuant: how much of the ranges of inputs goes into weights."""

_EXPONENTS = np.linspace(0, 1, 11)[1:]
_TRIED = 4  # scales of blocks: exponents are only compared
_SPREAD = 1e-4  # of the largest magnitude: channels that are nearly always 0 say nothing


def search_channel_scales(
    weight: Reals, hessian: NDArray, magnitudes: NDArray, grid: BlockFormat
) -> tuple[Reals, float]:
    """Find by what to multiply the columns of a weight.

    Args:
        weight: float32 [N, K].
        hessian: The mean of x x^T, [K, K].
        magnitudes: The mean of abs(x), [K].
        grid: Format and block size.
    Returns:
        Positive scales, float32 [K], of 11 significant bits; all 1 where nothing is better. And the exponent.
    """
    h = np.asarray(hessian, np.float32)
    size = np.maximum(magnitudes, _SPREAD * max(float(magnitudes.max()), 1e-30))
    ones = np.ones(len(size), np.float32)
    best, least, exponent = ones, _error_of_scales(weight, ones, h, grid), 0.0
    for power in _EXPONENTS:
        scales = size**power
        scales = scales / np.sqrt(scales.max() * scales.min())
        scales = short_scales(scales.astype(np.float32))
        error = _error_of_scales(weight, scales, h, grid)
        if error < least:
            best, least, exponent = scales, error, float(power)
    return best, exponent


def smooth_channel_scales(weight: Reals, peaks: NDArray, strength: float) -> Reals:
    """Return by what to multiply the columns of a weight that evens out inputs (SmoothQuant).

    t = peak^strength / max abs(w)^(1 - strength): 0.5 gives both the same ranges, 1 evens out
    inputs alone.
    Source: Xiao et al. 2023 (SmoothQuant), equation 4.

    Args:
        weight: float32 [N, K].
        peaks: The largest abs(x), [K].
        strength: From 0 to 1.
    Returns:
        Positive scales, float32 [K], of 11 significant bits, their geometric mean near 1.
    """
    inputs = np.maximum(peaks, _SPREAD * max(float(peaks.max()), 1e-30)).astype(np.float64)
    columns = np.abs(weight).max(0)
    columns = np.maximum(columns, _SPREAD * max(float(columns.max()), 1e-30)).astype(np.float64)
    scales = inputs**strength / columns ** (1 - strength)
    scales /= np.exp(np.log(scales).mean())
    return short_scales(scales.astype(np.float32))


def _error_of_scales(weight: Reals, scales: Reals, h: Reals, grid: BlockFormat) -> float:
    rounded = round_to_nearest(weight * scales, grid, np.diagonal(h) / scales**2, tried=_TRIED)
    errors = dequantize_blocks(rounded) / scales - weight
    return float(np.einsum("nk,nk->", errors @ h, errors))
