"""Block weights as the inputs and attributes of ONNX's operators."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.formats.regrid import BlockGrid, regrid
from intact.numerics import BlockWeights, join_stream, split_levels

BLOCK_INPUTS = ("codes", "scales", "zero_points", "minima", "bias", "sub_scales", "sub_minima", "table")
"""Of BlockLinear behind the data, in order."""
_SCALES = ("float32", "float16", "bfloat16")


def nbits_inputs(weights: BlockWeights) -> tuple[dict[str, NDArray], dict[str, int]]:
    """Return the inputs and attributes of a MatMulNBits with these weights.

    Args:
        weights: Shape [N, K], 2 to 8 bits, blocks of a power of 2 from 16 on. Codes of 3 bits are stored in
            4, those of 5 to 7 in 8.
    Returns:
        ``B`` uint8 [N, blocks, block_size * bits / 8], ``scales`` [N, blocks], where they are needed
        ``zero_points`` uint8 [N, bytes]; and K, N, bits and block_size.
    Raises:
        UnsupportedError: The operator has no such grid.
    """
    size = weights.block_size
    bits = next((stored for stored in (2, 4, 8) if weights.bits <= stored), 0)
    if weights.codes.ndim != 2 or not bits or size < 16 or size & (size - 1):
        raise UnsupportedError(
            "weights", f"{weights.bits} bits in blocks of {size}, shape {list(weights.shape)}",
            "2 to 8 bits in blocks of 16, 32, 64 ... along the last of two axes, for MatMulNBits",
            "cut the blocks, or write DequantizeLinear",
        )  # fmt: skip
    fitted = regrid(weights, BlockGrid("MatMulNBits", f"uint{bits}", scales=_SCALES, zero_points=True))
    n, k = fitted.shape
    points, middle = fitted.zero_points, 2 ** (bits - 1)
    assert points is not None
    codes = np.full((n, fitted.blocks * size), middle, np.uint8)
    codes[:, :k] = fitted.codes
    packed = join_stream(codes, bits, 1).reshape(n, fitted.blocks, size * bits // 8)
    inputs = {"B": packed, "scales": np.ascontiguousarray(fitted.scales)}
    if (points != middle).any():
        inputs["zero_points"] = join_stream(np.ascontiguousarray(points), bits, 1)
    return inputs, {"K": k, "N": n, "bits": bits, "block_size": size}


def dequantize_inputs(weights: BlockWeights) -> tuple[dict[str, NDArray], dict[str, int]]:
    """Return the inputs and attributes of a blocked DequantizeLinear (opset 21) with these weights.

    Args:
        weights: Shape [..., K], int4, uint4, int8 or uint8.
    Returns:
        ``x`` of the format's own dtype, ``x_scale``, perhaps ``x_zero_point``; axis and block_size.
    Raises:
        UnsupportedError: The operator has no such grid.
    """
    stored = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "int8": np.int8, "uint8": np.uint8}
    name = weights.format if weights.format in stored else "int4" if weights.bits <= 4 else "int8"
    has_points = weights.zero_points is not None
    fitted = regrid(weights, BlockGrid("DequantizeLinear", name, scales=_SCALES, zero_points=has_points))
    inputs = {"x": fitted.codes.astype(stored[name]), "x_scale": np.ascontiguousarray(fitted.scales)}
    if fitted.zero_points is not None:
        inputs["x_zero_point"] = fitted.zero_points.astype(stored[name])
    return inputs, {"axis": weights.codes.ndim - 1, "block_size": fitted.block_size}


def block_inputs(weights: BlockWeights) -> tuple[dict[str, NDArray], dict[str, int]]:
    """Return the inputs and attributes of INTact's own BlockLinear and BlockGather with these weights.

    Args:
        weights: Shape [N, K], 2 to 8 bits, any block; codes are numbers, or indices of 16 values.
    Returns:
        ``codes`` uint8 [N, bytes], without a sign; where they are needed ``zero_points`` uint8 [N, blocks] or
        ``table`` float32 [16]; what `split_levels` gives; and K, bits and block.
    """
    middle, codes = 2 ** (weights.bits - 1), weights.codes
    points = np.zeros(weights.scales.shape, np.int16) if weights.zero_points is None else weights.zero_points
    if codes.dtype == np.int8:
        codes, points = codes.view(np.uint8) + np.uint8(middle), points.astype(np.int16) + middle
    points = points.astype(np.uint8)
    arrays = {"codes": join_stream(codes, weights.bits, 1), **split_levels(weights)}
    if weights.values is not None:
        arrays["table"] = weights.values
    elif not (points == middle).all():
        arrays["zero_points"] = points
    return arrays, {"K": weights.shape[1], "bits": weights.bits, "block": weights.block_size}
