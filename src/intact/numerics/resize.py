"""The elements that each output of a Resize reads along an axis, their weights, and their sums. NORMATIVE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class ResizeSampling:
    """Describes a Resize along an axis. Source: ONNX Resize, whose attributes these are.

    Attributes:
        mode: "nearest", "linear" or "cubic".
        coordinates: How an output's position follows from its index: a key of `COORDINATES`.
        rounding: How "nearest" rounds a position: a key of `ROUNDINGS`.
        cubic_coeff_a: Keys' coefficient of "cubic".
        exclude_outside: Whether "cubic" drops what lies beyond the ends, over the sum of the other weights.
        antialias: Whether an axis that shrinks is smoothed by a kernel as wide as its step.
    """

    mode: str
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


def nearest_places(
    sampling: ResizeSampling, size: int, wanted: int, scale: float, real: Any
) -> NDArray[np.int64]:
    """Compute the input element that each output reads (N57).

    Args:
        sampling: Of mode "nearest".
        size, wanted: Elements of the input and the output along the axis.
        scale: Outputs for each input.
        real: np.float32, as ONNX Runtime computes, or np.float64.
    Returns:
        int64 [wanted].
    """
    rounded = ROUNDINGS[sampling.rounding](_positions(sampling, real, size, wanted, scale))
    return np.asarray(np.clip(rounded, 0, size - 1).astype(np.int64))


def weighted_places(
    sampling: ResizeSampling, size: int, wanted: int, scale: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Compute the input elements that each output sums, and their weights (N57).

    Args:
        sampling: Of mode "linear" or "cubic".
        size, wanted, scale: As for `nearest_places`.
    Returns:
        int64 and float32 [wanted, terms]: 2 terms for "linear", 4 for "cubic"; as many as lie under the
        kernel where an axis is smoothed.
    """
    at = _positions(sampling, np.float64, size, wanted, scale)
    if sampling.antialias and scale < 1:
        places, weights = _antialias(at, size, sampling, scale)
    else:
        places, weights = _WEIGHTED[sampling.mode](at, size, sampling)
    return places, weights.astype(np.float32)


def _positions(sampling: ResizeSampling, real: Any, size: int, wanted: int, scale: float) -> Reals:
    """Return the position of each output element among those of the input."""
    place = COORDINATES[sampling.coordinates]
    return np.asarray(place(np.arange(wanted, dtype=real), real(scale), size, wanted))


def _linear(at: Reals, size: int, sampling: ResizeSampling) -> tuple[NDArray[np.int64], Reals]:
    """Weigh the two neighbours by nearness."""
    low = np.floor(at)
    part = at - low
    places = np.stack([low, low + 1], axis=1)
    return np.clip(places, 0, size - 1).astype(np.int64), np.stack([1 - part, part], axis=1)


def _cubic(at: Reals, size: int, sampling: ResizeSampling) -> tuple[NDArray[np.int64], Reals]:
    """Weigh four neighbours by Keys' kernel (1981), as ONNX's Resize has it."""
    places = np.floor(at)[:, None] + np.arange(-1, 3)
    weights = _keys(np.abs(at[:, None] - places), sampling.cubic_coeff_a)
    if sampling.exclude_outside:
        weights = np.where((places >= 0) & (places < size), weights, 0)
        weights /= ((weights[:, 0] + weights[:, 1]) + weights[:, 2] + weights[:, 3])[:, None]
    return np.clip(places, 0, size - 1).astype(np.int64), weights


def _keys(away: Reals, a: float) -> Reals:
    """Return the cubic weight of an element by its distance (Keys)."""
    near = ((a + 2) * away - (a + 3)) * (away * away) + 1
    far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
    return np.where(away <= 1, near, np.where(away < 2, far, 0))


def _antialias(
    at: Reals, size: int, sampling: ResizeSampling, scale: float
) -> tuple[NDArray[np.int64], Reals]:
    """Weigh all neighbours under the kernel, widened by 1 / scale, as ONNX Runtime and PyTorch have it: those
    beyond the ends count for the last one, or not at all."""
    reach = (2 if sampling.mode == "cubic" else 1) / scale
    first = np.floor(at + 1 - reach)
    places = first[:, None] + np.arange(int(np.floor(2 * reach)) + 2)
    away = np.abs(at[:, None] - places) * scale
    weights = _keys(away, sampling.cubic_coeff_a) if sampling.mode == "cubic" else np.maximum(1 - away, 0)
    inside = (places >= 0) & (places < size)
    if sampling.exclude_outside:
        weights = np.where(inside, weights, 0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    used = weights.any(axis=0)  # of a column that weighs nothing nobody needs the places
    return np.clip(places[:, used], 0, size - 1).astype(np.int64), weights[:, used]


_WEIGHTED = {"cubic": _cubic, "linear": _linear}

COORDINATES: dict[str, Callable[[Reals, Any, int, int], Reals]] = {
    "half_pixel": lambda i, scale, size, wanted: (i + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda i, scale, size, wanted: (
        (i + 0.5) / scale - 0.5 + size / 2 * (1 - wanted / (scale * size))
    ),
    "pytorch_half_pixel": lambda i, scale, size, wanted: (i + 0.5) / scale - 0.5 if wanted > 1 else i * 0,
    "asymmetric": lambda i, scale, size, wanted: i / scale,
    "align_corners": lambda i, scale, size, wanted: i * (size - 1) / (wanted - 1) if wanted > 1 else i * 0,
}
"""Mode -> positions of outputs i among the inputs, in the type of i."""

ROUNDINGS: dict[str, Callable[[Reals], Reals]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": lambda x: np.floor(x),
    "ceil": lambda x: np.ceil(x),
}
"""Mode -> the whole number that a position is rounded to."""

SAMPLED_TERMS = {"nearest": 1, "linear": 2, "cubic": 4}
"""Mode -> inputs that an output reads, where no axis is smoothed."""


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
