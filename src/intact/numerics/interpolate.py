"""Weighted sums of elements along one axis: what a linear or cubic Resize computes. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def interpolate(
    x: NDArray[np.float32], axis: int, places: NDArray[np.int64], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Compute ``y[i] = weights[i, 0] * x[places[i, 0]] + weights[i, 1] * x[places[i, 1]] + ...`` along an
    axis (N57).

    Args:
        x: float32.
        axis: The axis of x.
        places: int64 [size of y along the axis, terms]: indices of elements of x.
        weights: float32, shape of `places`.
    Returns:
        float32, shape of x but for the axis.
    Source: ONNX Resize, modes linear and cubic.
    """
    shape = [1] * x.ndim
    shape[axis] = len(places)
    with np.errstate(all="ignore"):
        terms = [
            weight.reshape(shape) * np.take(x, place, axis)
            for place, weight in zip(places.T, weights.T, strict=True)
        ]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
    return np.asarray(total, np.float32)
