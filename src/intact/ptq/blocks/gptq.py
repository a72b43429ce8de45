"""Rounds weights column by column, each error made up for by the columns behind it (GPTQ).

With X the inputs of a layer and H = X^T X, the squared error of its outputs is tr(D H D^T), D = W - W_q the
errors of the weights. With H = U S U^T, U a unit upper triangle, it is the sum over columns i of
S_ii (d_i + sum over k < i of d_k U_ki)^2: column i is rounded after it has moved by what the errors in front
of it ask for.
Source: Frantar et al. 2023, algorithm 1; in the form of LDLQ, which needs no inverse (Chee et al. 2023,
section 3.2). The order by descending squares ("act-order") goes over whole
blocks, and within each over its columns, so that neighbours share scales and no groups are needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics import BlockWeights
from intact.ptq.blocks.block_format import BlockFormat, Reals
from intact.ptq.blocks.fit_scales import fit_scales, nearest_codes

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
    """Return a Hessian [K, K] with `damping` times its mean square added to each square; 1 of zeros."""
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
