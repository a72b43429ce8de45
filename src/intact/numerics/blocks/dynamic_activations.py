"""Activations quantized as they come, with a range per tensor, per token or per block. NORMATIVE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.grids.affine import to_float32
from intact.spec import check_block_size

_SMALLEST_NORMAL = np.float32(2.0**-126)


@dataclass(frozen=True, eq=False)
class DynamicActivations:
    """Holds activations as codes with the scales that their own values gave.

    Attributes:
        codes: int8 or uint8 [..., K].
        scales: float32: shape () per tensor, [...] per token, [..., blocks] per block.
        zero_points: uint8, shape of `scales`; None for int8.
        block_size: Elements along K that share a scale; None per tensor and per token.

    Rule N68.
    """

    codes: NDArray
    scales: NDArray[np.float32]
    zero_points: NDArray[np.uint8] | None = None
    block_size: int | None = None


def quantize_dynamic(
    x: ArrayLike, *, symmetric: bool = True, per: str = "block", block_size: int | None = None
) -> DynamicActivations:
    """Quantize activations to int8 or uint8 by the range of each tensor, token or block. NORMATIVE.

    int8: ``s = fl32(amax / 127)`` and ``q = clamp(rne(fl32(x / s)), -127, 127)``.
    uint8: the range is widened to contain 0; ``s = fl32(fl32(max - min) / 255)``,
    ``z = clamp(rne(fl32(-min / s)), 0, 255)`` and ``q = clamp(rne(fl32(x / s)) + z, 0, 255)``.
    A scale below 2^-126 is 1 instead, with zero point 0, so that all codes are 0. Of a range with a NaN or an
    infinity, or one beyond float32, the scale is a NaN and all codes are 0, zero point included: what is
    computed with it is a NaN too.

    Args:
        x: Reals [..., K]; other dtypes are rounded to float32 first.
        symmetric: True: int8. False: uint8 with a zero point.
        per: "tensor", "token" (each row of K has a range) or "block".
        block_size: Elements along K of a block, for ``per="block"``; the last block may be shorter.
    Returns:
        Codes of the shape of `x`, and their scales.
    Raises:
        QuantValueError: `x` has no axis; or `per` and `block_size` do not fit.
    Source: ONNX DynamicQuantizeLinear (uint8 per tensor); com.microsoft MatMulNBits at accuracy_level 4
        (int8 per block).

    Rule N68.
    """
    x = to_float32(x)
    size = check_block_size(block_size)
    if per not in ("tensor", "token", "block") or (size is not None) != (per == "block"):
        raise QuantValueError(
            "per", f"{per!r:.40} with block_size {block_size}",
            "'tensor', 'token', or 'block' with a block_size", "give a block_size with per='block' alone",
        )  # fmt: skip
    if x.ndim < 1:
        raise QuantValueError("x", f"shape {x.shape}", "an axis to cut into blocks", "give rows of numbers")
    low, high = _ranges(x, per, size)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if symmetric:
            scales = _usable(np.maximum(-low, high), np.float32(127))
            codes = np.clip(_steps(x, _per_element(scales, x, per, size)), -127, 127)
            return DynamicActivations(codes.astype(np.int8), scales, None, size)
        scales = _usable(high - low, np.float32(255))
        points = np.clip(_steps(-low, scales), 0, 255)
        spread = _per_element(np.asarray(points), x, per, size)
        codes = np.clip(_steps(x, _per_element(scales, x, per, size)), -spread, 255 - spread) + spread
    return DynamicActivations(codes.astype(np.uint8), scales, np.asarray(points.astype(np.uint8)), size)


def _ranges(x: NDArray[np.float32], per: str, size: int | None) -> tuple[NDArray, NDArray]:
    """Smallest and largest value of each range, 0 among them."""
    if per == "tensor":
        ends = x.min(initial=0), x.max(initial=0)
    elif size is None:
        ends = x.min(axis=-1, initial=0), x.max(axis=-1, initial=0)
    else:
        blocks = -(-x.shape[-1] // size)
        padded = np.zeros((*x.shape[:-1], blocks * size), np.float32)
        padded[..., : x.shape[-1]] = x
        tiles = padded.reshape(*x.shape[:-1], blocks, size)
        ends = tiles.min(axis=-1, initial=0), tiles.max(axis=-1, initial=0)
    return np.asarray(ends[0], np.float32), np.asarray(ends[1], np.float32)


def _usable(ranges: NDArray[np.float32], steps: np.float32) -> NDArray[np.float32]:
    """Return the scales of ranges in so many steps."""
    scales = np.where(np.isfinite(ranges), ranges / steps, np.float32(np.nan))
    return np.asarray(np.where(scales < _SMALLEST_NORMAL, np.float32(1), scales), np.float32)


def _steps(values: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Divide and round to nearest even; 0 where the scale is a NaN."""
    return np.asarray(np.where(np.isnan(scales), np.float32(0), np.rint(values / scales)), np.float32)


def _per_element(values: NDArray, x: NDArray[np.float32], per: str, size: int | None) -> NDArray:
    """Spread the values of each range so that they broadcast against `x`."""
    if per == "tensor":
        return values
    if size is None:
        return values[..., None]
    return np.asarray(values[..., np.arange(x.shape[-1]) // size])
