"""Weights rounded with regard to each other, as plain formulas: every sum in one order, on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def moments(x: NDArray[np.float32], block: slice) -> tuple[Doubles, Doubles]:
    """Sums of the columns of a block, and of the products of any two of them, over all rows. NORMATIVE.

    Float64, one row after the other. The product of two float32 numbers is exact.

    Args:
        x: [groups, rows, columns].
        block: Columns.
    Returns:
        [groups, b] and [groups, b, b], symmetric.
    """
    rows = x[:, :, block].astype(np.float64)
    groups, _, size = rows.shape
    sums, products = np.zeros((groups, size)), np.zeros((groups, size, size))
    for row in rows.transpose(1, 0, 2):
        sums += row
        products += row[:, :, None] * row[:, None, :]
    return sums, products


def unit_factor(matrices: Doubles) -> Doubles:
    """U of U D U^T, D diagonal and U a unit upper triangle, of positive symmetric matrices. NORMATIVE.

    From the last column on, each taken out of those before it; of the matrices the lower triangle counts.

    Args:
        matrices: [groups, b, b].
    """
    left, found = matrices.copy(), np.zeros(matrices.shape)
    for j in reversed(range(matrices.shape[1])):
        row = left[:, j, :j]
        found[:, :j, j] = row / left[:, j, j, None]
        found[:, j, j] = 1
        left[:, :j, :j] -= found[:, :j, j, None] * row[:, None, :]
    return found


def round_together(rows: Doubles, steps: Doubles, factors: Doubles, low: float, high: float) -> Doubles:
    """Points of a grid for each row, so that their errors cancel. NORMATIVE.

    One column after the other: w_i + sum over k < i of d_k U_ki goes to its nearest point, ties to the even
    code, with d_k what column k lost, added in the order of k (LDLQ, Chee et al. 2023, section 3.2).

    Args:
        rows: Weights, [groups, outputs, b].
        steps: Of the grid, of the same shape, > 0.
        factors: U, [groups, b, b].
        low, high: The codes at the grid's ends.
    """
    wanted, points = rows.copy(), np.empty(rows.shape)
    for i in range(rows.shape[2]):
        codes = np.clip(np.rint(wanted[:, :, i] / steps[:, :, i]), low, high)
        points[:, :, i] = (codes + 0.0) * steps[:, :, i]  # a plain zero of -0
        lost = rows[:, :, i] - points[:, :, i]
        wanted[:, :, i + 1 :] += lost[:, :, None] * factors[:, i, None, i + 1 :]
    return points


def quadratic_forms(rows: Doubles, matrices: Doubles) -> Doubles:
    """d^T H d of every row d. NORMATIVE: both sums in the order of the columns.

    Args:
        rows: [groups, outputs, b].
        matrices: H, symmetric, [groups, b, b].
    Returns:
        [groups, outputs].
    """
    products, found = np.zeros(rows.shape), np.zeros(rows.shape[:2])
    for i in range(rows.shape[2]):
        products += rows[:, :, i, None] * matrices[:, i, None, :]
    for i in range(rows.shape[2]):
        found += products[:, :, i] * rows[:, :, i]
    return found
