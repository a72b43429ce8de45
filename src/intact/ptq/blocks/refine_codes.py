"""Moves codes and scales that are rounded already to where the error of a layer's outputs is least.

The error is E = tr(D H D^T), D the errors of the weights. With all other codes fixed, the best value of one
weight is w + (D H)_k / H_kk away; with all codes fixed, that of a block's scale moves by
sum(q (D H)) / (q H q). Both never raise E. Columns are visited block by block, all outputs at once.
Source: coordinate descent as in QuantEase (Behdin et al. 2023, section 3), with scales among the coordinates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics import BlockWeights, code_steps
from intact.ptq.blocks.block_format import BlockFormat, Reals
from intact.ptq.blocks.fit_scales import nearest_codes, short_scales

SWEEPS = 4
"""Visits of each column: more change little."""


def refine(
    rounded: BlockWeights, weight: Reals, hessian: NDArray, grid: BlockFormat, *, sweeps: int = SWEEPS
) -> BlockWeights:
    """Lower the error of the outputs by moving codes and scales one by one.

    Args:
        rounded: Weights [N, K] on `grid`.
        weight: What they stand for, float32 [N, K].
        hessian: As for `round_with_hessian`.
        grid: Format and block size.
        sweeps: How often each column is visited.
    Returns:
        Weights [N, K] on `grid`.
    """
    size = weight.shape[1]
    h = np.ascontiguousarray(hessian / max(float(np.trace(hessian)) / size, 1e-300), np.float32)
    scales = rounded.scales.astype(np.float32).copy()
    points = np.zeros_like(scales) if rounded.zero_points is None else rounded.zero_points.astype(np.float32)
    multiples = np.ascontiguousarray(code_steps(rounded).T)  # [K, N]
    pull = h @ (weight.T - multiples * grid.per_column(scales, size).T)  # [K, N]
    for _ in range(sweeps):
        for block, part in enumerate(grid.blocks_of(size)):
            q, inner = multiples[part], h[part, part]
            scale, point = scales[:, block].copy(), points[:, block]
            before = q * scale
            local = pull[part].copy()
            _move_scale(scale, q, local, inner)
            _move_codes(q, scale, point, local, inner, grid)
            scales[:, block] = scale
            pull -= h[:, part] @ (q * scale - before)
    codes = multiples.T + grid.per_column(points, size)
    return grid.weights(codes, scales, points)


def _move_scale(scale: Reals, q: Reals, pull: Reals, inner: Reals) -> None:
    """Move the scales of a block, in place, and `pull` with them."""
    spread = inner @ q
    curvature = np.einsum("kn,kn->n", q, spread)
    moved = scale + np.einsum("kn,kn->n", q, pull) / np.maximum(curvature, 1e-30)
    moved = np.where((curvature > 0) & (np.abs(moved) > 1e-12), short_scales(moved), scale)
    change = moved - scale
    # Rounded to 11 bits it need not be better.
    gain = 2 * change * np.einsum("kn,kn->n", q, pull) - change**2 * curvature
    change = np.where(gain > 0, change, 0)
    scale += change
    pull -= spread * change


def _move_codes(q: Reals, scale: Reals, point: Reals, pull: Reals, inner: Reals, grid: BlockFormat) -> None:
    """Move the codes of a block, in place, and `pull` with them."""
    for k in range(len(q)):
        target = q[k] * scale + pull[k] / max(float(inner[k, k]), 1e-30)
        moved = nearest_codes(target, scale, point, grid) - point
        change = (moved - q[k]) * scale
        q[k] = moved
        pull -= inner[:, k, None] * change
