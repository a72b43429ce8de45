"""The GGUF type that holds given weights exactly."""

from __future__ import annotations

import numpy as np

from intact.errors import UnsupportedError
from intact.formats.ggml_blocks import CODECS, GgmlCodec
from intact.formats.ggml_types import GGML_TYPES
from intact.formats.regrid import BlockGrid, describe, regrid
from intact.numerics import BlockWeights

_ONE_LEVEL = (
    "TQ1_0", "TQ2_0", "IQ4_NL", "MXFP4", "NVFP4", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
)  # fmt: skip
"""Types with one level of scales, the smaller ones first."""


def gguf_weights(weights: BlockWeights) -> tuple[str, BlockWeights]:
    """Return the smallest type that holds weights exactly, and the weights on its grid.

    Args:
        weights: Shape [..., K].
    Returns:
        The name of the type, and weights that `write_gguf` takes for it.
    Raises:
        UnsupportedError: No type holds them.
    """
    if weights.super_scales is not None:
        for name, codec in CODECS.items():
            if codec.sub_bits and _is_k_quant(weights, codec):
                return name, weights
    for name in _ONE_LEVEL:
        if weights.codes.ndim > 4 or weights.shape[-1] % GGML_TYPES[name].block_size:
            continue
        codec = CODECS[name]
        grid = BlockGrid(
            f"GGUF {name}", codec.format, codec.block_size, (codec.scale,),
            zero_points=name == "TQ2_0", minima=codec.minima,
        )  # fmt: skip
        try:
            fitted = regrid(weights, grid)
        except UnsupportedError:
            continue
        if _has_fixed_parts(name, fitted):
            return name, fitted
    raise UnsupportedError(
        "weights", f"{describe(weights)}, {weights.shape[-1]} columns",
        "blocks of 32 or 256 with float16 scales, as Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 have them",
        "quantize the floats anew with llama.cpp",
    )  # fmt: skip


def _is_k_quant(weights: BlockWeights, codec: GgmlCodec) -> bool:
    supers, scales = weights.super_scales, weights.scales
    return (
        weights.format == codec.format and weights.block_size == codec.block_size
        and (weights.minima is not None) == codec.minima and weights.zero_points is None
        and weights.groups is None and supers is not None and supers.dtype == np.float16
        and supers.shape == (*weights.shape[:-1], weights.shape[-1] // 256) and weights.shape[-1] % 256 == 0
        and _fits_bits(scales, codec) and (weights.minima is None or _fits_bits(weights.minima, codec))
        and (weights.super_minima is None or weights.super_minima.dtype == np.float16)
    )  # fmt: skip


def _fits_bits(values: np.ndarray, codec: GgmlCodec) -> bool:
    half = 2 ** (codec.sub_bits - 1) if codec.signed_sub else 0
    if values.dtype != (np.int8 if codec.signed_sub else np.uint8):
        return False
    return not values.size or bool(-half <= values.min() and values.max() < 2**codec.sub_bits - half)


def _has_fixed_parts(name: str, fitted: BlockWeights) -> bool:
    """Return whether what the type does not store is what it stands for."""
    if name == "TQ1_0":
        return not (fitted.codes == -2).any()
    if name == "TQ2_0":
        return fitted.zero_points is not None and bool((fitted.zero_points == 1).all())
    if name == "NVFP4":
        return not (fitted.scales.view(np.uint8) > 126).any()
    return name != "MXFP4" or not (fitted.scales.view(np.uint8) == 255).any()
