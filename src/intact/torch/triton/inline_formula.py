"""The mathematics of `intact.torch.fake_quantize_formula` as functions that kernels inline."""

# Annotations are values here, that Triton reads: no `from __future__ import annotations`.
import triton
import triton.language as tl

from intact.torch import fake_quantize_formula as formula

OPTIONS = {"enable_fp_fusion": False}
"""Compiler options of every kernel. They round a product and the sum behind it separately."""

TINY = tl.constexpr(formula.TINY)
INFINITY = tl.constexpr(float("inf"))
HALF_WAY = tl.constexpr(1.5 * 2.0**23)
"""Floats of this size are 1 apart: adding and subtracting it rounds numbers below 2**22, ties to even."""


@triton.jit
def round_to_even(x):
    """Round `x` to the nearest integer, ties to even. |x| < 2**22, and a zero comes out positive."""
    return (x + HALF_WAY) - HALF_WAY


@triton.jit
def scale_and_zero_point(high, low, QMIN: tl.constexpr, QMAX: tl.constexpr, SYMMETRIC: tl.constexpr):
    """Compute `formula.scale_and_zero_point`; `low` is not read where the grid is symmetric."""
    if SYMMETRIC:
        scale = tl.where(high <= TINY, 1.0, tl.div_rn(high, tl.full(high.shape, QMAX, tl.float32)))
        valid = (high >= 0.0) & (high < INFINITY)
        zero_point = tl.zeros_like(scale)
    else:
        least, most = tl.minimum(low, 0.0), tl.maximum(high, 0.0)
        width = most - least
        empty = width <= TINY
        scale = tl.where(empty, 1.0, tl.div_rn(width, tl.full(width.shape, QMAX - QMIN, tl.float32)))
        valid = (low <= high) & (width < INFINITY)  # false for NaN
        zero_point = QMAX - round_to_even(tl.div_rn(most, scale))
        zero_point = tl.where(empty, 0.0, tl.minimum(tl.maximum(zero_point, QMIN), QMAX))
    # Not a constant of the module: Triton refuses to run a kernel whose globals do not equal themselves.
    return tl.where(valid, scale, float("nan")), zero_point


@triton.jit
def codes(
    x, scale, zero_point,
    QMIN: tl.constexpr, QMAX: tl.constexpr, MANTISSA: tl.constexpr, LOWEST: tl.constexpr,
):  # fmt: skip
    """Compute `formula.codes` of numbers. MANTISSA is negative for an integer grid."""
    steps = tl.div_rn(x, scale)
    if MANTISSA < 0:
        return round_to_even(tl.minimum(tl.maximum(steps, QMIN - zero_point), QMAX - zero_point))
    bits = tl.minimum(tl.maximum(steps, QMIN), QMAX).to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    exponent = tl.maximum(magnitude >> 23, LOWEST) - MANTISSA
    units = round_to_even(magnitude.to(tl.float32, bitcast=True) * power_of_two(254 - exponent))
    rounded_bits = (units * power_of_two(exponent)).to(tl.int32, bitcast=True)
    return (rounded_bits | (bits ^ magnitude)).to(tl.float32, bitcast=True)  # the sign of a zero, too


@triton.jit
def power_of_two(exponent):
    """Compute `formula.power_of_two`."""
    return (exponent << 23).to(tl.float32, bitcast=True)
