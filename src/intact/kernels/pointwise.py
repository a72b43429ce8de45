"""Makers of native element-wise steps on codes: quantize, dequantize, rescale, table lookup, add.

Each returns a step for `Program.add`. Codes are bytes, and zero points and bounds are bytes, too. Makers
raise ValueError for a step that is unsafe to run (csrc/base/check.h).
"""

from __future__ import annotations

from intact.kernels import _native
from intact.kernels.epilogue import Bytes
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import Kernels, kernels_or_chosen


def quantize(x: View, y: View, scale: float, grid: Bytes, kernels: Kernels | None = None) -> NativeStep:
    """Make the step from float32 to bytes (N11); x and y may have different orders of axes in memory."""
    k = kernels_or_chosen(kernels)
    return _native.step_quantize(k["quantize"], k["transpose"], x, y, scale, grid.as_tuple())


def split_quantize(
    x: View, above: View, below: View, scale: float, ends: tuple[int, int], kernels: Kernels | None = None
) -> NativeStep:
    """Make the step from float32 to the two bytes of ``q - qmin``, for codes q of 16 bits (N62).

    Args:
        x: float32, in any order of axes.
        above, below: The high and the low bytes, with the same strides.
        scale: The scale of the codes.
        ends: The smallest and the largest code, minus the zero point.
        kernels: The kernel of each family.
    """
    k = kernels_or_chosen(kernels)
    return _native.step_split_quantize(k["quantize"], k["transpose"], x, above, below, scale, *ends)


def dequantize(x: View, y: View, scale: float, zero: int, kernels: Kernels | None = None) -> NativeStep:
    """Make the step from bytes to float32 (N12); x and y may have different orders of axes in memory."""
    k = kernels_or_chosen(kernels)
    return _native.step_dequantize(k["quantize"], k["transpose"], x, y, scale, zero)


def add(
    a: View,
    b: View,
    y: View,
    from_a: tuple[int, float],
    from_b: tuple[int, float],
    scale: float,
    grid: Bytes,
    kernels: Kernels | None = None,
) -> NativeStep:
    """Make the step that adds two tensors of codes of one shape (N26); strides of 0 broadcast.

    Args:
        a, b, y: Bytes.
        from_a, from_b: The zero point and scale of a, and of b.
        scale, grid: Those of y.
        kernels: The kernel of each family.
    """
    name = kernels_or_chosen(kernels)["pointwise"]
    return _native.step_add(name, a, b, y, *from_a, *from_b, scale, grid.as_tuple())


def rescale(
    x: View, y: View, zero: int, multiplier: float, grid: Bytes, kernels: Kernels | None = None
) -> NativeStep:
    """Make the step from bytes of one grid to another (N28), by one multiplier: the scale of x over that
    of y."""
    return _native.step_rescale(
        kernels_or_chosen(kernels)["pointwise"], x, y, zero, multiplier, grid.as_tuple()
    )


def lookup(x: View, table: View, y: View, kernels: Kernels | None = None) -> NativeStep:
    """Make the step ``y = table[x]``; the table is a constant of 256 bytes."""
    return _native.step_table(kernels_or_chosen(kernels)["pointwise"], x, table, y)
