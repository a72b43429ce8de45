"""Random block weights of every kind of scale, zero point and minimum that the record knows."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from intact.numerics import TABLE_FORMATS, BlockWeights, code_bits

SCALES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "e4m3": ml_dtypes.float8_e4m3fn,
}


def codes_of(rng, name: str, shape: tuple[int, ...]) -> np.ndarray:
    signed = name.startswith("int")
    low = -(2 ** (code_bits(name) - 1)) if signed else 0
    if name in TABLE_FORMATS and name.startswith("fp8"):
        return rng.integers(0, 0x78, shape).astype(np.uint8)  # finite ones of both
    return rng.integers(low, low + 2 ** code_bits(name), shape).astype(np.int8 if signed else np.uint8)


def scales_of(rng, kind: str, shape: tuple[int, ...], *, signed: bool = True) -> np.ndarray:
    values = rng.uniform(0.002, 0.1, shape).astype(np.float32)
    if kind == "e8m0":
        values = np.exp2(rng.integers(-8, 0, shape)).astype(np.float32)
    elif signed:
        values *= rng.choice(np.float32([-1, 1]), shape)
    return values.astype(SCALES[kind])


def plain(rng, name="uint4", k=96, n=5, block=32, scale="float32", zero=None, minima=None) -> BlockWeights:
    """Weights [n, k]; `zero` is None, "codes" or "floats", `minima` None or a kind of float."""
    blocks = (n, -(-k // block))
    points = None
    if zero == "codes":
        points = codes_of(rng, name, blocks)
    elif zero == "floats":
        points = rng.uniform(0, 2 ** code_bits(name), blocks).astype(np.float16)
    offsets = None if minima is None else scales_of(rng, minima, blocks)
    return BlockWeights(
        codes_of(rng, name, (n, k)), name, scales_of(rng, scale, blocks), block, points, offsets
    )


def k_quant(rng, name="uint4", k=512, n=3, block=32, minima=True, zero=False) -> BlockWeights:
    """Integer sub-scales under a float16 super-scale for 256 elements, as GGUF's K-quants have them."""
    blocks, supers = (n, k // block), (n, k // 256)
    return BlockWeights(
        codes_of(rng, name, (n, k)), name, rng.integers(-32, 64, blocks).astype(np.int8), block,
        zero_points=np.full(blocks, 2 ** (code_bits(name) - 1), np.uint8) if zero else None,
        minima=rng.integers(0, 64, blocks).astype(np.uint8) if minima else None,
        super_scales=scales_of(rng, "float16", supers),
        super_minima=-scales_of(rng, "float16", supers) if minima else None,
    )  # fmt: skip
