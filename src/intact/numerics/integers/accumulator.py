"""Exact integer sums, and the proof that an int32 accumulator holds them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError

ACCUMULATOR_LIMIT = 2**31
FLOAT64_EXACT = 2.0**53


def accumulator_bound(
    w: ArrayLike,
    x_range: tuple[int, int],
    x_zero_point: int,
    w_zero_point: ArrayLike = 0,
    bias: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Compute ``max|q - z| * sum|w| + |bias|`` of each output channel: an upper bound of its sums. NORMATIVE.

    Args:
        w: Weight codes [out, ...] of a linear or convolution.
        x_range: Smallest and largest code that the input can hold, ``(spec.qmin, spec.qmax)`` at most.
        x_zero_point: The input code that means 0.0.
        w_zero_point: The weight code that means 0.0, one number or [out].
        bias: An int32 bias, [out].
    Returns:
        int64 [out]. The layer fits an int32 accumulator where this is below 2**31, in any order of
        summation, because intermediate sums may wrap around.

    Rule N20.
    """
    reach = max(abs(int(end) - int(x_zero_point)) for end in x_range)
    magnitudes = np.abs(subtract_weight_zero_points(w, w_zero_point))
    total = magnitudes.sum(axis=tuple(range(1, magnitudes.ndim)))
    return np.asarray(reach * total + (0 if bias is None else np.abs(np.asarray(bias, np.int64))))


def prove_accumulator(bound: ArrayLike) -> None:
    """Check that ``accumulator_bound(...) < 2**31`` in every output channel.

    Args:
        bound: int64 [out], from `accumulator_bound`.

    Raises:
        QuantValueError: A channel can overflow an int32 accumulator; the worst one is named.

    Rule N20.
    """
    bound = np.asarray(bound)
    if (bound >= ACCUMULATOR_LIMIT).any():
        raise QuantValueError(
            f"output channel {bound.argmax()}",
            f"sums up to {bound.max()}",
            "sums below 2**31",
            "split the reduction, or keep the layer in float",
        )


def subtract_zero_point(q: ArrayLike, zero_point: ArrayLike, name: str) -> NDArray[np.int64]:
    """Compute ``q - zero_point`` as int64, which cannot overflow.

    Raises:
        QuantValueError: `q` is an array of floats.
    """
    q = np.asarray(q)
    if q.dtype.kind in "fc":
        raise QuantValueError(name, f"dtype {q.dtype}", "integer codes", "quantize it first")
    return np.asarray(q.astype(np.int64) - np.asarray(zero_point, np.int64))


def subtract_weight_zero_points(w: ArrayLike, zero_point: ArrayLike) -> NDArray[np.int64]:
    """Compute ``w - zero_point`` as int64, with one zero point, or one for each index of the first axis."""
    points = np.asarray(zero_point, np.int64)
    rank = np.ndim(w)
    if points.ndim and (rank == 0 or points.shape != np.shape(w)[:1]):
        raise shape_error(np.shape(w), points.shape, "one w_zero_point, or one for each output channel")
    return subtract_zero_point(w, points.reshape(-1, *[1] * (rank - 1)) if points.ndim else points, "w")


def exact_product(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute ``a @ b``, formed with float64 BLAS, where every partial sum is an integer below 2**53.

    Raises:
        QuantValueError: A partial sum could reach 2**53.
    """
    reach = float(np.abs(a).max(initial=0)) * float(np.abs(b).max(initial=0)) * a.shape[-1]
    if reach >= FLOAT64_EXACT:
        raise _overflow_error(f"partial sums up to {reach:g}")
    return np.asarray((a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64))


def accumulator(sums: NDArray[np.int64], bias: ArrayLike | None = None, axis: int = -1) -> NDArray[np.int32]:
    """Compute ``sums + bias`` as int32, with an integer bias along `axis`.

    Raises:
        QuantValueError: The bias has another shape than the channels, or a sum leaves int32.
    """
    if bias is not None:
        integers = subtract_zero_point(bias, 0, "bias")
        if integers.shape != (sums.shape[axis],):
            raise shape_error(integers.shape, sums.shape, f"one int32 bias for each channel of axis {axis}")
        sums = sums + integers.reshape([-1 if a == axis % sums.ndim else 1 for a in range(sums.ndim)])
    largest = int(np.abs(sums).max(initial=0))
    if largest >= ACCUMULATOR_LIMIT:
        raise _overflow_error(f"a sum of magnitude {largest}")
    return np.asarray(sums.astype(np.int32))


def _overflow_error(got: str) -> QuantValueError:
    return QuantValueError(
        "accumulator", got, "sums below 2**31", "split the reduction, or keep the layer in float"
    )


def shape_error(first: tuple[int, ...], second: tuple[int, ...], want: str) -> QuantValueError:
    return QuantValueError(
        "shape", f"{first} with {second}", want, "check the layout; scales and weights keep the float layer's"
    )
