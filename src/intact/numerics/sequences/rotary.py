"""Rotary position embedding of floats. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


def rotary_embedding(
    x: ArrayLike, cosines: ArrayLike, sines: ArrayLike, positions: ArrayLike, interleaved: bool = False
) -> Reals:
    """Rotate pairs (a, b) of the last axis: ``(a * cos - b * sin, a * sin + b * cos)``. NORMATIVE.

    Every product, difference and sum is rounded by itself.

    Args:
        x: Reals [batch, tokens, heads, size].
        cosines, sines: Reals [positions, pairs]; elements beyond the first ``2 * pairs`` stay as they are.
        positions: Integers [batch, tokens]: a row of cosines for each token.
        interleaved: Pairs are neighbours; else the second elements stand behind all first ones.
    Returns:
        float32, shape of x.
    Raises:
        QuantValueError: A position is out of range, or heads are shorter than their pairs.
    Source: "RoFormer: Enhanced Transformer with Rotary Position Embedding"; ONNX RotaryEmbedding.

    Rule N71.
    """
    x, rows = to_float32(x), np.asarray(positions)
    angles = [to_float32(table) for table in (cosines, sines)]
    count, pairs = angles[0].shape
    if 2 * pairs > x.shape[-1]:
        raise QuantValueError("heads", f"size {x.shape[-1]}", f"at least {2 * pairs}", "check the angles")
    if rows.size and not (rows.min() >= 0 and rows.max() < count):
        got, want = f"positions {rows.min()} to {rows.max()}", f"0 to {count - 1}"
        raise QuantValueError("positions", got, want, "shorten the sequence, or make more angles")
    cos, sin = (table[rows][:, :, None, :] for table in angles)
    first, second = (
        (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
        if interleaved
        else (slice(0, pairs), slice(pairs, 2 * pairs))
    )
    y = x.copy()
    with np.errstate(all="ignore"):
        a, b = x[..., first], x[..., second]
        y[..., first] = a * cos - b * sin
        y[..., second] = a * sin + b * cos
    return y
