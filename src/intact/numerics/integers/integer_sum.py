"""Exact integer sums: linear, matmul, and the proof that an int32 accumulator holds them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError

ACCUMULATOR_LIMIT = 2**31
FLOAT64_EXACT = 2.0**53


def linear(
    x: ArrayLike, w: ArrayLike, x_zero_point: int, w_zero_point: ArrayLike = 0, bias: ArrayLike | None = None
) -> NDArray[np.int32]:
    """``acc[..., o] = sum_k (x[..., k] - z_x) * (w[o, k] - z_w[o]) + bias[o]``, exact. NORMATIVE.

    Args:
        x: Codes [..., in_features].
        w: Codes [out_features, in_features].
        x_zero_point: The code of `x` that means 0.0.
        w_zero_point: The same for `w`, one number or [out_features].
        bias: A foreign file's int32 bias, whose scale is ``multipliers(s_x, s_w)``, [out_features]. A real
            bias is no part of the sum: `scaled_bias` takes it.
    Returns:
        int32 [..., out_features].
    Raises:
        QuantValueError: Codes are not integers, the shapes do not fit, or a sum leaves int32.
    Source: ONNX MatMulInteger, Gemm; exact because every partial sum is an integer below 2**53.
    """
    rows, columns = centred(x, x_zero_point, "x"), centred_weights(w, w_zero_point)
    if columns.ndim != 2 or rows.ndim < 1 or rows.shape[-1] != columns.shape[1]:
        raise _shape_error(rows.shape, columns.shape, "x [..., k] and w [o, k]")
    return accumulator(exact_product(rows, columns.T), bias, axis=-1)


def matmul(a: ArrayLike, b: ArrayLike, a_zero_point: int, b_zero_point: int) -> NDArray[np.int32]:
    """``acc[..., i, j] = sum_k (a[..., i, k] - z_a) * (b[..., k, j] - z_b)``, of two activations. NORMATIVE.

    Args:
        a: Codes [..., i, k].
        b: Codes [..., k, j]; leading axes broadcast.
        a_zero_point, b_zero_point: The codes that mean 0.0.
    Returns:
        int32 [..., i, j].
    Raises:
        QuantValueError: Codes are not integers, the shapes do not fit, or a sum leaves int32.
    Source: ONNX MatMulInteger.
    """
    left, right = centred(a, a_zero_point, "a"), centred(b, b_zero_point, "b")
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        raise _shape_error(left.shape, right.shape, "a [..., i, k] and b [..., k, j]")
    return accumulator(exact_product(left, right))


def join_sums(high: ArrayLike, low: ArrayLike, shift: int = 0) -> NDArray[np.int32]:
    """``floor((256 * high + low) / 2^shift + 1/2)``: sums of 16-bit codes, of those of bytes. NORMATIVE.

    Args:
        high, low: int32, of one shape: what `linear` or `conv` makes of ``(q - qmin) >> 8`` and of
            ``(q - qmin) & 255``, with the zero point's own bytes; an integer bias is part of `low`.
        shift: 0 to 7: the least for which the result is proved to fit (`shift_of_sums`).
    Returns:
        int32.
    Raises:
        QuantValueError: A sum leaves int32.
    """
    half = 1 << shift >> 1
    whole = (256 * np.asarray(high, np.int64) + np.asarray(low, np.int64) + half) >> shift
    return accumulator(np.asarray(whole))


def shift_of_sums(bound: ArrayLike) -> int:
    """The least shift with which `join_sums` stays in int32, for sums up to `bound`. NORMATIVE."""
    most, shift = int(np.asarray(bound).max(initial=0)), 0
    while (most >> shift) + 1 >= ACCUMULATOR_LIMIT:
        shift += 1
    return shift


def accumulator_bound(
    w: ArrayLike,
    x_range: tuple[int, int],
    x_zero_point: int,
    w_zero_point: ArrayLike = 0,
    bias: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """``max|q - z| * sum|w| + |bias|`` of each output channel: no input can make the sum larger. NORMATIVE.

    Args:
        w: Weight codes [out, ...] of a linear or convolution.
        x_range: Smallest and largest code that the input can hold, ``(spec.qmin, spec.qmax)`` at most.
        x_zero_point: The input code that means 0.0.
        w_zero_point: The weight code that means 0.0, one number or [out].
        bias: An int32 bias, [out].
    Returns:
        int64 [out]. The layer fits an int32 accumulator where this is below 2**31, in any order of
        summation, because intermediate sums may wrap around.
    """
    reach = max(abs(int(end) - int(x_zero_point)) for end in x_range)
    magnitudes = np.abs(centred_weights(w, w_zero_point))
    total = magnitudes.sum(axis=tuple(range(1, magnitudes.ndim)))
    return np.asarray(reach * total + (0 if bias is None else np.abs(np.asarray(bias, np.int64))))


def prove_accumulator(bound: ArrayLike) -> None:
    """``accumulator_bound(...) < 2**31`` in every output channel, or an error that names the worst one.

    Raises:
        QuantValueError: A channel can overflow an int32 accumulator.
    """
    bound = np.asarray(bound)
    if (bound >= ACCUMULATOR_LIMIT).any():
        raise QuantValueError(
            f"output channel {bound.argmax()}",
            f"sums up to {bound.max()}",
            "sums below 2**31",
            "split the reduction, or keep the layer in float",
        )


def centred(q: ArrayLike, zero_point: ArrayLike, name: str) -> NDArray[np.int64]:
    """``q - zero_point`` as int64, so that nothing wraps.

    Raises:
        QuantValueError: `q` is an array of floats.
    """
    q = np.asarray(q)
    if q.dtype.kind in "fc":
        raise QuantValueError(name, f"dtype {q.dtype}", "integer codes", "quantize it first")
    return np.asarray(q.astype(np.int64) - np.asarray(zero_point, np.int64))


def centred_weights(w: ArrayLike, zero_point: ArrayLike) -> NDArray[np.int64]:
    """`centred` weights, one zero point for all or one for each index of the first axis."""
    points = np.asarray(zero_point, np.int64)
    rank = np.ndim(w)
    if points.ndim and (rank == 0 or points.shape != np.shape(w)[:1]):
        raise _shape_error(np.shape(w), points.shape, "one w_zero_point, or one for each output channel")
    return centred(w, points.reshape(-1, *[1] * (rank - 1)) if points.ndim else points, "w")


def exact_product(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """``a @ b``, formed with float64 BLAS, where every partial sum is an integer below 2**53.

    Raises:
        QuantValueError: A partial sum could reach 2**53.
    """
    reach = float(np.abs(a).max(initial=0)) * float(np.abs(b).max(initial=0)) * a.shape[-1]
    if reach >= FLOAT64_EXACT:
        raise _overflow(f"partial sums up to {reach:g}")
    return np.asarray((a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64))


def accumulator(sums: NDArray[np.int64], bias: ArrayLike | None = None, axis: int = -1) -> NDArray[np.int32]:
    """``sums + bias`` as int32, with an integer bias along `axis`.

    Raises:
        QuantValueError: The bias has another shape than the channels, or a sum leaves int32.
    """
    if bias is not None:
        added = centred(bias, 0, "bias")
        if added.shape != (sums.shape[axis],):
            raise _shape_error(added.shape, sums.shape, f"one int32 bias for each channel of axis {axis}")
        sums = sums + added.reshape([-1 if a == axis % sums.ndim else 1 for a in range(sums.ndim)])
    largest = int(np.abs(sums).max(initial=0))
    if largest >= ACCUMULATOR_LIMIT:
        raise _overflow(f"a sum of magnitude {largest}")
    return np.asarray(sums.astype(np.int32))


def _overflow(got: str) -> QuantValueError:
    return QuantValueError(
        "accumulator", got, "sums below 2**31", "split the reduction, or keep the layer in float"
    )


def _shape_error(first: tuple[int, ...], second: tuple[int, ...], want: str) -> QuantValueError:
    return QuantValueError(
        "shape", f"{first} with {second}", want, "check the layout; scales and weights keep the float layer's"
    )
