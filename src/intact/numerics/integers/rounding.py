"""Rounding of weights that compensates errors within a row (LDLQ, GPTQ), in one fixed order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def moments(x: NDArray[np.float32], block: slice) -> tuple[Doubles, Doubles]:
    """Sum each column of a block, and the product of any two, over all rows. NORMATIVE.

    Sums are float64, one row after the other. The product of two float32 numbers is exact.

    Args:
        x: float32 [groups, rows, columns].
        block: A slice of b columns.
    Returns:
        float64 [groups, b] and [groups, b, b], symmetric.

    Rule N63.
    """
    rows = x[:, :, block].astype(np.float64)
    groups, _, size = rows.shape
    sums, products = np.zeros((groups, size)), np.zeros((groups, size, size))
    for row in rows.transpose(1, 0, 2):
        sums += row
        products += row[:, :, None] * row[:, None, :]
    return sums, products


def unit_factor(matrices: Doubles) -> Doubles:
    """Factor positive symmetric matrices as U D U^T and return the unit upper triangle U. NORMATIVE.

    Columns are eliminated from the last one on. Only the lower triangle of the matrices is read.

    Args:
        matrices: float64 [groups, b, b], positive definite.
    Returns:
        float64 [groups, b, b].

    Rule N63.
    """
    rest, factors = matrices.copy(), np.zeros(matrices.shape)
    for j in reversed(range(matrices.shape[1])):
        row = rest[:, j, :j]
        factors[:, :j, j] = row / rest[:, j, j, None]
        factors[:, j, j] = 1
        rest[:, :j, :j] -= factors[:, :j, j, None] * row[:, None, :]
    return factors


def round_together(rows: Doubles, steps: Doubles, factors: Doubles, low: float, high: float) -> Doubles:
    """Round the weights of each row to a grid, so that their errors cancel. NORMATIVE.

    Columns are rounded in order. Column i rounds w_i + sum over k < i of d_k U_ki to its nearest point, ties
    to the even code. d_k is the rounding error of column k, and the sum is in the order of k.

    Args:
        rows: Weights, float64 [groups, outputs, b].
        steps: The step of the grid for each weight, shape of `rows`, > 0.
        factors: U, float64 [groups, b, b], from `unit_factor`.
        low, high: The codes at the ends of the grid.
    Returns:
        Points of the grid, float64, shape of `rows`.
    Source: LDLQ, Chee et al. 2023, section 3.2.

    Rule N63.
    """
    targets, points = rows.copy(), np.empty(rows.shape)
    for i in range(rows.shape[2]):
        codes = np.clip(np.rint(targets[:, :, i] / steps[:, :, i]), low, high)
        points[:, :, i] = (codes + 0.0) * steps[:, :, i]  # + 0.0 turns -0 into 0
        error = rows[:, :, i] - points[:, :, i]
        targets[:, :, i + 1 :] += error[:, :, None] * factors[:, i, None, i + 1 :]
    return points


def quadratic_forms(rows: Doubles, matrices: Doubles) -> Doubles:
    """Compute d^T H d of every row d, with both sums in the order of the columns. NORMATIVE.

    Args:
        rows: d, float64 [groups, outputs, b].
        matrices: H, symmetric, float64 [groups, b, b].
    Returns:
        float64 [groups, outputs].

    Rule N63.
    """
    products, forms = np.zeros(rows.shape), np.zeros(rows.shape[:2])
    for i in range(rows.shape[2]):
        products += rows[:, :, i, None] * matrices[:, i, None, :]
    for i in range(rows.shape[2]):
        forms += products[:, :, i] * rows[:, :, i]
    return forms
