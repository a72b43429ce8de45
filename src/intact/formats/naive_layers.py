"""Layers of compressed-tensors whose codes are not packed: int8, fp8 and MXFP8.

Source: compressed-tensors compressors/naive_quantized and mxfp8.
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.errors import FileFormatError, UnsupportedError
from intact.formats.regrid import BlockGrid, describe, regrid
from intact.numerics import BlockWeights

_FLOATS = ("bfloat16", "float16", "float32")
_FORMATS = {"int8": "int8", "float8_e4m3fn": "fp8e4m3"}


def read_naive(parts: Mapping[str, NDArray]) -> BlockWeights:
    """Return the weights [N, K] of a layer.

    Args:
        parts: ``weight`` int8 or float8_e4m3fn [N, K]; ``weight_scale`` floats, or uint8 for e8m0, one for
            all, [N, 1] or [N, blocks]; perhaps ``weight_zero_point`` int8 of the same shape.
    Raises:
        FileFormatError: Shapes or dtypes are others.
    """
    weight, scales, points = parts["weight"], parts["weight_scale"], parts.get("weight_zero_point")
    if weight.dtype.name not in _FORMATS or weight.ndim != 2 or not weight.shape[1]:
        raise _layer_error("weight", weight, "int8 or float8_e4m3fn [N, K]")
    if scales.dtype == np.uint8:
        scales = np.ascontiguousarray(scales).view(ml_dtypes.float8_e8m0fnu)
    elif scales.dtype.name not in (*_FLOATS, "float8_e8m0fnu"):
        raise _layer_error("weight_scale", scales, f"{', '.join(_FLOATS)} or uint8")
    n, k = weight.shape
    stored = _rows(scales, n)
    if stored is None or not stored.shape[1] or k % stored.shape[1]:
        raise _layer_error("weight_scale", scales, f"one, or [{n}, blocks] of blocks that divide {k}")
    if points is not None:
        points = _rows(points, n)
        if points is None or points.dtype != np.int8 or points.shape != stored.shape:
            raise _layer_error("weight_zero_point", parts["weight_zero_point"], f"int8 {list(stored.shape)}")
        points = points if points.any() else None
    codes = weight if weight.dtype == np.int8 else weight.view(np.uint8)
    return BlockWeights(codes, _FORMATS[weight.dtype.name], stored, k // stored.shape[1], points)


def write_naive(weights: BlockWeights) -> dict[str, NDArray]:
    """Return the tensors of a layer by suffix: `read_naive` gives the same floats.

    Raises:
        UnsupportedError: The format does not hold these weights.
    """
    size, k = weights.block_size, weights.shape[-1]
    if weights.codes.ndim != 2 or (weights.blocks > 1 and k % size):
        raise UnsupportedError(
            "weights", f"{describe(weights)}, shape {list(weights.shape)}",
            "[N, K], K a multiple of the block", "choose another format",
        )  # fmt: skip
    if weights.format == "fp8e4m3":
        is_mx = weights.scales.dtype.name == "float8_e8m0fnu" and size == 32
        scales = ("float8_e8m0fnu",) if is_mx else _FLOATS
        fitted = regrid(weights, BlockGrid("naive-quantized", "fp8e4m3", scales=scales))
        stored = np.ascontiguousarray(fitted.scales)
        return {
            "weight": np.ascontiguousarray(fitted.codes).view(ml_dtypes.float8_e4m3fn),
            "weight_scale": stored.view(np.uint8) if is_mx else stored,
        }
    has_points = weights.zero_points is not None and not _is_middle(weights)
    fitted = regrid(weights, BlockGrid("naive-quantized", "int8", scales=_FLOATS, zero_points=has_points))
    parts = {
        "weight": np.ascontiguousarray(fitted.codes),
        "weight_scale": np.ascontiguousarray(fitted.scales),
    }
    if fitted.zero_points is not None:
        parts["weight_zero_point"] = np.ascontiguousarray(fitted.zero_points)
    return parts


def naive_packing(weights: BlockWeights) -> str:
    """Return the name that config.json has for weights that `write_naive` writes."""
    if weights.format != "fp8e4m3":
        return "int-quantized"
    is_mx = weights.scales.dtype.name == "float8_e8m0fnu" and weights.block_size == 32
    return "mxfp8-quantized" if is_mx else "float-quantized"


def _is_middle(weights: BlockWeights) -> bool:
    points = weights.zero_points
    return (
        points is not None
        and points.size > 0
        and bool((points == points.flat[0]).all())
        and (points.flat[0] == (2 ** (weights.bits - 1) if weights.codes.dtype == np.uint8 else 0))
    )


def _rows(part: NDArray, n: int) -> NDArray | None:
    """Return [N, blocks] out of one value, [N], or [N, blocks]."""
    if part.size == 1:
        return np.broadcast_to(part.reshape(1, 1), (n, 1))
    if part.ndim == 1:
        part = part[:, None]
    return part if part.ndim == 2 and len(part) == n else None


def _layer_error(where: str, part: NDArray, want: str) -> FileFormatError:
    return FileFormatError(
        where, f"{part.dtype} {list(part.shape)}", want, "the file is damaged, or of another format"
    )
