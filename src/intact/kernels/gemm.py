"""Convolutions and products with constant matrices, as steps of a `Program`.

Weights are packed once for a kernel (`pack`); `conv` makes a step of them for one set of shapes. Sums and
epilogues are those of `numerics` (N19 to N25), bit for bit, whatever the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native
from intact.kernels.epilogue import BoundEpilogue
from intact.kernels.pages import WEIGHTS
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import chosen_kernels

FAMILY = "gemm"
WINOGRAD = "winograd"


def pack(
    weight: NDArray[np.int8], *, high: int, groups: int = 1, joined: bool = True, kernel: str | None = None
) -> NDArray[np.uint8]:
    """Weights in the form that a kernel reads, for any shape of input.

    Args:
        weight: int8 [out, kernel_h, kernel_w, in / groups], zero points subtracted.
        high: The largest byte that the input can hold: what some kernels' proofs rest on.
        groups: Of input and output channels.
        joined: The pixels of a window's row will be neighbours in memory: one group, dilation 1 across.
        kernel: Of family "gemm"; the chosen one by default.
    Returns:
        Bytes, described in csrc/kernels/gemm/packed.h; they are read fastest from a multiple of 64.
    Raises:
        ValueError: Sizes are out of range.
    """
    packed = _native.pack_gemm(
        kernel or chosen_kernels()[FAMILY], np.ascontiguousarray(weight), groups, joined, high
    )
    return WEIGHTS.copy(packed)


def steps_by_group(packed: NDArray[np.uint8], kernel: str | None = None) -> tuple[int, ...]:
    """How many steps of 4 bytes run in groups of 1, 2, ... 8 that share one 16-bit sum, and last how many as
    words of 16 bits, over all panels."""
    return tuple(_native.gemm_groups(kernel or chosen_kernels()[FAMILY], packed))


@dataclass(frozen=True)
class LowBytes:
    """The low bytes of codes of 16 bits (N62): the epilogue's correction is that of their sums.

    Attributes:
        view: As that of the high bytes.
        shift: Sums are rounded to multiples of 2^shift.
        high_correction: int32 [out], added to the sums of high bytes.
    """

    view: View
    shift: int
    high_correction: NDArray[np.int32]


def conv(
    x: View,
    y: View,
    packed: NDArray[np.uint8],
    epilogue: BoundEpilogue,
    *,
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    origin: tuple[int, int] = (0, 0),
    threads: int = 1,
    zero: int = 0,
    low: LowBytes | None = None,
    kernel: str | None = None,
) -> NativeStep:
    """A convolution. A matrix is an image of 1 x M pixels.

    Args:
        x: Bytes (n, h, w, c), channels side by side, with a halo as wide as windows reach.
        y: Bytes or float32 (n, h, w, c), channels side by side.
        packed: What `pack` returned for the same kernel. Not copied.
        epilogue: From sums to `y`.
        strides, dilations: Of the window, (h, w).
        origin: The pixel of `x` under the first tap of pixel (0, 0) of `y`: minus the padding.
        threads: That will share the work: it is cut for as many, where the kernel minds.
        zero: The byte of `x` around which most of its bytes are expected. Speed hangs on it, no result.
        low: Of codes of 16 bits, whose high bytes are `x`.
        kernel: Of family "gemm"; the chosen one by default.
    Raises:
        ValueError: Views, weights and windows do not fit each other.
    """
    return _native.step_conv(
        kernel or chosen_kernels()[FAMILY],
        x,
        y,
        packed,
        strides,
        dilations,
        origin,
        epilogue.native,
        threads,
        zero,
        low.view if low else None,
        low.shift if low else 0,
        low.high_correction.tolist() if low else (),
    )


def chosen(
    x: View,
    index: View,
    y: View,
    packed: NDArray[np.uint8],
    epilogue: BoundEpilogue,
    *,
    kernel: str,
    threads: int = 1,
    zero: int = 0,
) -> NativeStep:
    """Rows, each by the matrices that indices choose for it.

    Args:
        x: Bytes (1, 1, m, in), channels side by side.
        index: int32 or int64 [n], n / m for each row. Negative ones count from the end; one out of range ends
            the run.
        y: Bytes or float32 (1, 1, n, out / groups).
        packed: What `pack` returned for the same kernel of weights [out, 1, 1, in], in `groups`, as if each
            had channels of x of its own.
        epilogue: From sums to `y`, of all `out` channels; without a residual.
        kernel: Of family "gemm"; not one of tiles (`is_tiled`).
        threads, zero: As for `conv`.
    Raises:
        ValueError: Views and weights do not fit each other.
    """
    return _native.step_chosen_linear(kernel, x, index, y, packed, epilogue.native, threads, zero)


def is_tiled(kernel: str) -> bool:
    """Whether a kernel has tiles for registers, and weights packed for them."""
    return _native.gemm_tiled(kernel)


def is_grouped(kernel: str) -> bool:
    """Whether a kernel shares 16-bit sums, so that its speed depends on what the weights are."""
    return _native.gemm_grouped(kernel)


def fills(kernel: str, *, pixels: int, window: int, channels: int) -> bool:
    """Whether a kernel suits a convolution of so many output pixels, bytes of a window, channels of a group.

    One of tiles, or of wide vectors, takes as long for few as for many.
    """
    return _native.gemm_fills(kernel, pixels, window, channels)


def winograd_fits(weight: NDArray[np.int8], *, high: int) -> bool:
    """Whether Winograd's form of a 3x3 convolution of stride 1 is proved exact for these weights.

    Args:
        weight: int8 [out, 3, 3, in]: `in` has to be a multiple of 32, and no output may reach 2^25.
        high: The largest byte that the input can hold.
    """
    return _native.winograd_fits(np.ascontiguousarray(weight), high)


def winograd_pays(
    y: View, channels: int, *, threads: int = 1, kernel: str | None = None, direct: str | None = None
) -> bool:
    """Whether `winograd` is faster than `conv`, for an output (n, h, w, c) and the input's channels.

    Args:
        kernel, direct: Of `winograd` and of `conv`; the chosen ones by default.
    """
    n, h, w, out = y.sizes
    chosen = chosen_kernels()
    sizes = (n, h, w, channels, out)
    return _native.winograd_pays(kernel or chosen[WINOGRAD], direct or chosen[FAMILY], sizes, threads)


def pack_winograd(weight: NDArray[np.int8], *, high: int, kernel: str | None = None) -> NDArray[np.uint8]:
    """As `pack`, for `winograd`.

    Raises:
        ValueError: Weights that `winograd_fits` refuses.
    """
    packed = _native.pack_winograd(kernel or chosen_kernels()[WINOGRAD], np.ascontiguousarray(weight), high)
    return WEIGHTS.copy(packed)


def winograd(
    x: View,
    y: View,
    packed: NDArray[np.uint8],
    epilogue: BoundEpilogue,
    *,
    origin: tuple[int, int] = (0, 0),
    threads: int = 1,
    kernel: str | None = None,
) -> NativeStep:
    """A 3x3 convolution of stride 1, by a quarter of the products that `conv` needs: the same bits.

    Arguments and errors are those of `conv`; `packed` is what `pack_winograd` returned. The work is cut
    for as many `threads`.
    """
    return _native.step_winograd(
        kernel or chosen_kernels()[WINOGRAD],
        x,
        y,
        packed,
        origin,
        epilogue.native,
        threads,
    )
