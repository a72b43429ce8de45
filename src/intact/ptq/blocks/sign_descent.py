"""Learns to which side weights are rounded, and how far ranges are clipped, by the signs of gradients.

w_q = s (clamp(rne(w / s + z + v), low, high) - z), v between -1/2 and 1/2, and s and z of the range of the
block times a share of it, which is learned, too. The loss is tr(D H D^T), D = w_q - w: the squared error of
the outputs. Rounding passes gradients on. Each step moves by the sign of the gradient, ever less far.
Source: Cheng et al. 2023 (AutoRound, "SignRound"), layer by layer here instead of in blocks of layers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics import BlockWeights
from intact.ptq.blocks.block_format import BlockFormat, Reals
from intact.ptq.blocks.fit_scales import round_to_nearest, short_scales

STEPS = 200
"""As in the paper: 400 lower the error by less than 2%."""

_SHARES = 0.5, 1.5  # of a fitted scale
_PACE = 1.0  # the first steps move by this over STEPS


def round_by_signs(weight: Reals, hessian: NDArray, grid: BlockFormat, *, steps: int = STEPS) -> BlockWeights:
    """Round weights so that errors cancel on the inputs that `hessian` describes.

    Args:
        weight: float32 [N, K].
        hessian: As for `round_with_hessian`.
        grid: Format and block size.
        steps: Of the descent.
    Returns:
        Weights [N, K] on `grid`; each output has the best codes that were met.
    """
    size = weight.shape[1]
    h = np.ascontiguousarray(hessian / max(float(np.trace(hessian)) / size, 1e-300), np.float32)
    start = round_to_nearest(weight, grid, np.diagonal(hessian))
    fitted = start.scales.astype(np.float32)
    point = np.zeros_like(fitted) if start.zero_points is None else start.zero_points.astype(np.float32)
    points = grid.per_column(point, size)
    offsets, share = np.zeros_like(weight), np.ones_like(fitted)
    starts = np.arange(0, size, grid.block_size)
    least = np.full(len(weight), np.inf, np.float32)
    best_codes, best_scales = np.empty(weight.shape, np.int16), fitted.copy()
    for step in range(steps + 1):
        scale = short_scales(fitted * share)
        scales = grid.per_column(scale, size)
        ratio = weight / scales
        raw = np.rint(ratio + offsets) + points
        codes = np.clip(raw, grid.low, grid.high)
        errors = (codes - points) * scales - weight
        pull = errors @ h  # half of the gradient by w_q
        loss = np.einsum("nk,nk->n", pull, errors)
        better = loss < least
        least[better] = loss[better]
        best_codes[better], best_scales[better] = codes[better], scale[better]
        if step == steps:
            break
        pace = np.float32(_PACE / steps * (1 - step / steps))
        inside = codes == raw
        by_offset = np.where(inside, pull * scales, 0)
        by_scale = pull * np.where(inside, codes - points - ratio, codes - points)
        offsets = np.clip(offsets - pace * np.sign(by_offset), -0.5, 0.5)
        slope = np.add.reduceat(by_scale, starts, axis=1) * fitted
        share = np.clip(share - pace * np.sign(slope), *_SHARES).astype(np.float32)
    return grid.weights(best_codes, best_scales, point)
