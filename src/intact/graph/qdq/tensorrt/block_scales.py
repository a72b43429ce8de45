"""Codes with scales that each run computes, one for each block, written as nodes on floats.

Block formats are those of the OCP Microscaling specification, and NVIDIA's NVFP4: scales of FP8 with one
float32 for all. Codes are float32 numbers on their grid.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import ml_dtypes
import numpy as np

Value = TypeVar("Value")
Sizes = tuple[int, ...]

LARGEST_CODES = {
    "float8_e4m3fn": 448.0, "float4_e2m1fn": 6.0, "float6_e3m2fn": 28.0, "float6_e2m3fn": 7.5, "int8": 127.0,
    "int4": 7.0,
}  # fmt: skip
"""The code that the largest magnitude gets, of each type, by NumPy's name."""

_FLOAT6 = {"float6_e3m2fn": (2.0**-4, -1, 4), "float6_e2m3fn": (2.0**-3, 1, 2)}
"""The least step of each type, and the exponents from the first to the last where it doubles."""


class BlockNodeWriter(Protocol[Value]):
    """Writes nodes, and returns what they make."""

    def __call__(self, op_type: str, *inputs: Value, **attributes: Any) -> Value: ...
    def array(self, values: Any) -> Value: ...
    def ints(self, *values: int) -> Value: ...
    def cast(self, value: Value, dtype: str) -> Value: ...


def codes_and_scales(
    n: BlockNodeWriter[Value], x: Value, shape: Sizes, blocks: Sizes, types: tuple[str, str | None],
    factor: Value | None,
) -> tuple[Value, Value | None, Value]:  # fmt: skip
    """Write codes of `x`, the scales of its blocks, and what codes are multiplied by; all cut into blocks.

    Args:
        n: Writes the nodes.
        x: Data of `shape`.
        shape, blocks: Sizes, and how many elements of each axis share a scale.
        types: Of the codes, and of the scales, by NumPy's names; None: there are none but `factor`.
        factor: A scalar that scales are multiplied by; None: none.
    """
    dtype, scale_type = types
    cut = in_blocks(n, x, shape, blocks)
    if scale_type is None:
        assert factor is not None
        return round_to_type(n, n("Div", cut, factor), dtype), None, factor
    inner = n.ints(*range(1, 2 * len(blocks), 2))
    amax = n("ReduceMax", n("Abs", cut), inner, keepdims=1)
    before_rounding = n("Div", amax, n.array(np.float32(LARGEST_CODES[dtype])))
    if factor is not None:
        scale = _round_scale(n, n("Div", before_rounding, factor), scale_type)
        total = n("Mul", scale, factor)
    else:
        scale = total = _round_scale(n, before_rounding, scale_type)
    unit = n.array(np.float32(1))  # a block of zeros: any scale gives zeros
    safe = n("Where", n("Equal", total, n.array(np.float32(0))), unit, total)
    return round_to_type(n, n("Div", cut, safe), dtype), scale, total


def _round_scale(n: BlockNodeWriter[Value], scale: Value, dtype: str) -> Value:
    if dtype == "float8_e4m3fn":
        return round_to_type(n, scale, dtype)
    return power_of_two(n, scale) if dtype == "float8_e8m0fnu" else scale


def in_blocks(n: BlockNodeWriter[Value], x: Value, shape: Sizes, blocks: Sizes) -> Value:
    """Return `x` with two axes for each: the block, and the place in it."""
    sizes = [s for size, b in zip(shape, blocks, strict=True) for s in (size if size < 0 else size // b, b)]
    return n("Reshape", x, n.ints(*at_most_one_unknown(sizes)))


def at_most_one_unknown(sizes: list[int]) -> list[int]:
    """Return sizes as a Reshape takes them.

    Raises:
        ValueError: Several sizes are unknown.
    """
    if sum(size < 0 for size in sizes) > 1:
        raise ValueError("blocks of a tensor with several sizes that only a run fixes")
    return sizes


def round_to_type(n: BlockNodeWriter[Value], x: Value, dtype: str) -> Value:
    """Round to the nearest numbers of `dtype`, as float32; ties to even, clamped to the largest."""
    if dtype == "float8_e4m3fn":
        unit, zero = n.array(np.float32(1)), n.array(np.zeros((), ml_dtypes.float8_e4m3fn))
        return n("DequantizeLinear", n("QuantizeLinear", x, unit, zero), unit, zero)
    if dtype.startswith("int"):
        most = LARGEST_CODES[dtype]
        return _clamp(n, n("Round", x), -most - 1, most)
    if dtype in _FLOAT6:
        return _round_to_float6(n, x, dtype)
    magnitude, size = n.array(np.float32(0)), n("Abs", x)
    for bound, ties, step in _FP4_STEPS:
        above = n("GreaterOrEqual" if ties else "Greater", size, n.array(np.float32(bound)))
        magnitude = n("Add", magnitude, n("Mul", n.cast(above, "float32"), n.array(np.float32(step))))
    return n("Mul", magnitude, n("Sign", x))


def _clamp(n: BlockNodeWriter[Value], x: Value, low: float, high: float) -> Value:
    return n("Min", n("Max", x, n.array(np.float32(low))), n.array(np.float32(high)))


def _round_to_float6(n: BlockNodeWriter[Value], x: Value, dtype: str) -> Value:
    """Round to multiples of the step that numbers of a magnitude have; a power of two, so nothing is lost."""
    least, first, last = _FLOAT6[dtype]
    size, step, double = n("Abs", x), n.array(np.float32(least)), n.array(np.float32(2))
    for exponent in range(first, last + 1):
        reaches = n("GreaterOrEqual", size, n.array(np.float32(2.0**exponent)))
        step = n("Where", reaches, n("Mul", step, double), step)
    rounded = n("Mul", n("Round", n("Div", x, step)), step)
    return _clamp(n, rounded, -LARGEST_CODES[dtype], LARGEST_CODES[dtype])


_FP4_STEPS = (
    (0.25, False, 0.5), (0.75, True, 0.5), (1.25, False, 0.5), (1.75, True, 0.5), (2.5, False, 1.0),
    (3.5, True, 1.0), (5.0, False, 2.0),
)  # fmt: skip
"""Lower bounds of 0.5, 1, 1.5, 2, 3, 4, 6; whether the bound itself rounds up; and the step to that
number.
"""


def power_of_two(n: BlockNodeWriter[Value], x: Value) -> Value:
    """Return the smallest power of two that is not below `x`.

    The logarithm may be off by one, which is corrected.
    """
    two, least = n.array(np.float32(2)), n.array(np.float32(2.0**-127))
    x = n("Max", x, least)
    power = n("Pow", two, n("Ceil", n("Div", n("Log", x), n.array(np.float32(np.log(2))))))
    half = n("Div", power, two)
    power = n("Where", n("GreaterOrEqual", half, x), half, power)
    return n("Where", n("Less", power, x), n("Mul", power, two), power)
