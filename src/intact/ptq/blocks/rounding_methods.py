"""Rounding methods of block weights: GPTQ, coordinate descent, sign descent and half-quadratic splitting.

GPTQ rounds column by column, and the columns behind make up for each error.

With X the inputs of a layer and H = X^T X, the squared error of its outputs is tr(D H D^T), D = W - W_q the
errors of the weights. With H = U S U^T, U a unit upper triangle, it is the sum over columns i of
S_ii (d_i + sum over k < i of d_k U_ki)^2: column i is rounded after it has moved by what the errors in front
of it ask for.
Source: Frantar et al. 2023, algorithm 1; in the form of LDLQ, which needs no inverse (Chee et al. 2023,
section 3.2). The order by descending squares ("act-order") goes over whole
blocks, and within each over its columns, so that neighbours share scales and no groups are needed.

Coordinate descent moves codes and scales that are rounded already to the least error of a layer's outputs.

The error is E = tr(D H D^T), D the errors of the weights. With all other codes fixed, the best value of one
weight is w + (D H)_k / H_kk away; with all codes fixed, that of a block's scale moves by
sum(q (D H)) / (q H q). Both never raise E. Columns are visited block by block, all outputs at once.
Source: coordinate descent as in QuantEase (Behdin et al. 2023, section 3), with scales among the coordinates.

Sign descent learns to which side weights are rounded, and how far ranges are clipped, by the signs of
gradients.

w_q = s (clamp(rne(w / s + z + v), low, high) - z), v between -1/2 and 1/2, and s and z of the range of the
block times a share of it, which is learned, too. The loss is tr(D H D^T), D = w_q - w: the squared error of
the outputs. Rounding passes gradients on. Each step moves by the sign of the gradient, ever less far.
Source: Cheng et al. 2023 (AutoRound, "SignRound"), layer by layer here instead of in blocks of layers.

Half-quadratic splitting fits scales and zero points to a norm of the errors below 2, without data: outliers
may err more.

The norm sum |w - s (q - z)|^p, p < 2, is split into two steps that take turns (half-quadratic splitting): the
errors that stay are shrunk, e = shrink(w - s (q - z)), and s and z are the least-squares solution for w - e.
Errors count in steps, so that one strength fits weights of any size.
Source: Badri and Shaji 2023 (HQQ), which moves zero points alone, with p = 0.7;
the shrinkage is that of Xu et al. 2012.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics import BlockWeights, code_steps
from intact.ptq.blocks.block_format import BlockFormat, Reals
from intact.ptq.blocks.fit_scales import fit_scales, nearest_codes, round_to_nearest, short_scales

DAMPING = 0.01
"""Of the mean square of the inputs, added to each: what was not seen may happen."""


def round_with_hessian(
    weight: Reals, hessian: NDArray, grid: BlockFormat, *, act_order: bool = True
) -> BlockWeights:
    """Round weights one column after the other, so that errors cancel on the inputs that `hessian` describes.

    Args:
        weight: float32 [N, K].
        hessian: The sum or mean of x x^T over inputs x, [K, K], with what damping it needs (`damp`).
        grid: Format and block size.
        act_order: Round the blocks and columns with the largest squares first.
    Returns:
        Weights [N, K] on `grid`. Scales of a block are fitted to its columns as they stand when it is
        reached, each weighted by its error's cost then.
    """
    outputs, size = weight.shape
    slices = list(grid.blocks_of(size))
    order, ends = _order(np.diagonal(hessian), slices, act_order)
    factor, costs = _unit_factor(hessian[np.ix_(order, order)])
    original = np.ascontiguousarray(weight[:, order].T, np.float32)  # [K, N]: a column is contiguous
    columns = original.copy()
    codes = np.empty((size, outputs), np.int16)
    scales, points = (np.empty((outputs, len(slices)), np.float32) for _ in range(2))
    begin = 0
    for block, end in ends:
        part = slice(begin, end)
        inner = factor[part, part]
        importance = costs[part] / costs[part].mean()
        scale, point = fit_scales(np.ascontiguousarray(columns[part].T), importance, grid)
        errors = np.empty((end - begin, outputs), np.float32)
        for i in range(end - begin):
            code = nearest_codes(columns[begin + i], scale, point, grid)
            codes[begin + i] = code
            errors[i] = original[begin + i] - (code - point) * scale
            columns[begin + i + 1 : end] += inner[i, i + 1 :, None] * errors[i]
        columns[end:] += factor[part, end:].T @ errors
        scales[:, block], points[:, block] = scale, point
        begin = end
    restored = np.empty((outputs, size), np.int16)
    restored[:, order] = codes.T
    return grid.weights(restored, scales, points)


def damp(hessian: NDArray, damping: float = DAMPING) -> NDArray[np.float64]:
    """Return a Hessian [K, K] with `damping` times its mean square added to each square; 1 of zeros.

    Args:
        hessian: Shape [K, K].
        damping: Share of the mean square.
    Returns:
        float64 [K, K].
    """
    squares = float(np.trace(hessian)) / max(len(hessian), 1)
    return np.asarray(hessian + np.eye(len(hessian)) * (squares * damping if squares > 0 else 1.0))


def _order(
    squares: NDArray, slices: list[slice], act_order: bool
) -> tuple[NDArray[np.intp], list[tuple[int, int]]]:
    """Return the order of the columns, and where each block ends in it."""
    blocks = list(range(len(slices)))
    if act_order:
        blocks.sort(key=lambda block: -float(squares[slices[block]].max()))
    order, ends = [], []
    for block in blocks:
        columns = np.arange(slices[block].start, slices[block].stop)
        order.append(columns[np.argsort(-squares[columns], kind="stable")] if act_order else columns)
        ends.append((block, sum(map(len, order))))
    return np.concatenate(order), ends


def _unit_factor(hessian: NDArray) -> tuple[Reals, Reals]:
    """Return the unit upper triangle U and the diagonal S with U S U^T = H, float32 [K, K] and [K].

    With J the reversal of the order, J H J = L L^T gives H = V V^T for the upper triangle V = J L J.
    """
    lower = np.linalg.cholesky(np.asarray(hessian, np.float64)[::-1, ::-1])
    upper = lower[::-1, ::-1]
    roots = np.diagonal(upper)
    return np.ascontiguousarray(upper / roots, np.float32), np.asarray(roots**2, np.float32)


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
