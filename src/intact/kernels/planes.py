"""Makers of the native steps that are no dense sum: what one does with planes of codes.

Each returns a step for `Program.add`. Codes are bytes (`Codes.offset`); every zero point and bound here is
one of bytes. Images are views (n, h, w, c) whose channels are neighbours. Makers raise ValueError for what
could not be run safely; they are called by `intact.engine.cpu.steps`, which knows what fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native
from intact.kernels.epilogue import BoundEpilogue, Bytes
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import chosen_kernels

Kernels = Mapping[str, str]
"""The kernel of each family; None in a maker: those that are chosen now."""
Pair = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """Where pools and convolutions look.

    Attributes:
        kernel, strides, dilations: (down, across).
        pads: (top, left, bottom, right).
    """

    kernel: Pair
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)


def quantize(x: View, y: View, scale: float, grid: Bytes, kernels: Kernels | None = None) -> NativeStep:
    """float32 to bytes (N11), in whatever order the two lie."""
    k = _kernels(kernels)
    return _native.step_quantize(k["quantize"], k["transpose"], x, y, scale, grid.packed())


def dequantize(x: View, y: View, scale: float, zero: int, kernels: Kernels | None = None) -> NativeStep:
    """Bytes to float32 (N12), in whatever order the two lie."""
    k = _kernels(kernels)
    return _native.step_dequantize(k["quantize"], k["transpose"], x, y, scale, zero)


def halo(image: View, value: int) -> NativeStep:
    """Fill the halo of an image."""
    return _native.step_halo(image, value)


def pick(x: View, index: View, y: View) -> NativeStep:
    """``y[i, ...] = x[index[i], ...]``, whose rows lie side by side.

    Args:
        x, y: Of one dtype.
        index: int32 or int64, of any rank; negative ones count from the end. What is out of range reads row
            0: compare before a run.
    """
    return _native.step_pick(x, index, y)


def fill(y: View, value: int) -> NativeStep:
    """Set every byte of y, without its halo."""
    return _native.step_fill(y, value)


def copy(x: View, y: View, kernels: Kernels | None = None) -> NativeStep:
    """Elements as they are; x and y have one dtype and one shape."""
    return _native.step_copy(_kernels(kernels)["transpose"], x, y)


def gather(x: View, y: View, indices: Sequence[Sequence[int]]) -> NativeStep:
    """``y[i, j, ...] = x[indices[0][i], indices[1][j], ...]``; one list for each axis of y."""
    return _native.step_gather(x, y, [list(map(int, axis)) for axis in indices])


def add(
    a: View,
    b: View,
    y: View,
    from_a: tuple[int, float],
    from_b: tuple[int, float],
    grid: Bytes,
    kernels: Kernels | None = None,
) -> NativeStep:
    """Sum of two tensors (N26) of one shape; strides of 0 broadcast. `from_a`: its zero, A; as for b."""
    return _native.step_add(_kernels(kernels)["pointwise"], a, b, y, *from_a, *from_b, grid.packed())


def rescale(
    x: View, y: View, zero: int, multiplier: float, grid: Bytes, kernels: Kernels | None = None
) -> NativeStep:
    """Bytes of one grid to bytes of another (N28)."""
    return _native.step_rescale(_kernels(kernels)["pointwise"], x, y, zero, multiplier, grid.packed())


def lookup(x: View, table: View, y: View, kernels: Kernels | None = None) -> NativeStep:
    """``y = table[x]``; the table is a constant of 256 bytes."""
    return _native.step_lookup(_kernels(kernels)["pointwise"], x, table, y)


def max_pool(x: View, y: View, window: Window, kernels: Kernels | None = None) -> NativeStep:
    """The largest byte of each window (N27); padding never wins."""
    w = window
    name = _kernels(kernels)["pool"]
    return _native.step_max_pool(name, x, y, w.kernel, w.strides, w.dilations, w.pads)


def mean_pool(
    x: View,
    y: View,
    window: Window,
    zero: int,
    multipliers: Mapping[int, float],
    grid: Bytes,
    *,
    include_pads: bool = False,
    kernels: Kernels | None = None,
) -> NativeStep:
    """The mean of each window (N27).

    Args:
        x, y: Images of bytes.
        window: What is pooled.
        zero: The byte of x that means 0.0.
        multipliers: ``ratio(s_x, s_y, n)`` for every n that a window can count.
        grid: Bytes of y.
        include_pads: n counts padding; what overhangs it is never counted.
        kernels: The kernel of each family.
    """
    w = window
    counts, values = list(multipliers), list(multipliers.values())
    name, last = _kernels(kernels)["pool"], (include_pads, counts, values, zero, grid.packed())
    return _native.step_mean_pool(name, x, y, w.kernel, w.strides, w.dilations, w.pads, *last)


def depthwise(
    x: View,
    y: View,
    weight: NDArray[Any],
    window: Window,
    epilogue: BoundEpilogue,
    kernels: Kernels | None = None,
) -> NativeStep:
    """Convolution of each channel by itself.

    Args:
        x: Image of bytes; padding is read from its halo. Where it holds bytes up to 127, AVX2 takes more taps
            at a time.
        y: Image of bytes or of float32.
        weight: int8 [kernel_h, kernel_w, channels].
        window: `kernel` is that of `weight`.
        epilogue: From sums to y; no factors.
        kernels: The kernel of each family.
    """
    return _native.step_depthwise(
        _kernels(kernels)["depthwise"],
        x,
        y,
        np.ascontiguousarray(weight, np.int8),
        window.strides,
        window.dilations,
        window.pads[:2],
        epilogue.native(),
    )


def _kernels(kernels: Kernels | None) -> Kernels:
    return chosen_kernels() if kernels is None else kernels
