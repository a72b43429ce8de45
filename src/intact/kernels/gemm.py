"""Makers of native steps of convolutions and of products with constant matrices.

`pack` packs weights once for a kernel, and `conv` makes a step of them for one set of shapes. Sums and
epilogues equal those of `numerics` (N19 to N25) bit for bit, with every kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native
from intact.kernels.epilogue import BoundEpilogue
from intact.kernels.pages import WEIGHTS
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import kernels_in_use

FAMILY = "gemm"
WINOGRAD = "winograd"


def pack(
    weight: NDArray[np.int8], *, high: int, groups: int = 1, joined: bool = True, kernel: str | None = None
) -> NDArray[np.uint8]:
    """Pack weights into the form that a kernel reads, for any shape of input.

    Args:
        weight: int8 [out, kernel_h, kernel_w, in / groups], zero points subtracted.
        high: The largest byte that the input can hold; some kernels rely on it to prove that sums fit.
        groups: The number of groups of channels.
        joined: The pixels of a window row are contiguous in memory: one group, horizontal dilation 1.
        kernel: A kernel of the family "gemm"; the chosen one by default.
    Returns:
        Bytes, described in csrc/kernels/gemm/packed.h; they are read fastest from a multiple of 64.
    Raises:
        ValueError: Sizes are out of range.
    """
    packed = _native.pack_gemm(
        kernel or kernels_in_use()[FAMILY], np.ascontiguousarray(weight), groups, joined, high
    )
    return WEIGHTS.copy(packed)


def steps_by_group(packed: NDArray[np.uint8], kernel: str | None = None) -> tuple[int, ...]:
    """Count the steps of 4 bytes, over all panels, by the size of the group that shares a 16-bit sum.

    Returns:
        Counts for groups of 1, 2, ... 8 steps; last the number of steps that run as 16-bit words.
    """
    return tuple(_native.gemm_groups(kernel or kernels_in_use()[FAMILY], packed))


@dataclass(frozen=True)
class LowBytes:
    """The low bytes of codes of 16 bits (N62). The correction of the epilogue is for their sums.

    Attributes:
        view: A view like that of the high bytes.
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
    """Make a convolution. For a product with a matrix, x is an image of 1 x M pixels.

    Args:
        x: Bytes (n, h, w, c), dense channels, with a halo as wide as windows reach.
        y: Bytes or float32 (n, h, w, c), dense channels.
        packed: The result of `pack` for the same kernel; it is not copied.
        epilogue: The epilogue from sums to `y`.
        strides, dilations: Those of the window, (h, w).
        origin: The pixel of `x` under the first tap of pixel (0, 0) of `y`: minus the padding.
        threads: The number of threads for which the work is divided.
        zero: The byte around which most bytes of `x` are expected. It affects speed, not results.
        low: The low bytes of codes of 16 bits, whose high bytes are `x`.
        kernel: A kernel of the family "gemm"; the chosen one by default.
    Raises:
        ValueError: Views, weights and windows do not fit each other.
    """
    return _native.step_conv(
        kernel or kernels_in_use()[FAMILY],
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


def linear_by_index(
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
    """Make a product of rows with matrices that indices choose for each row.

    Args:
        x: Bytes (1, 1, m, in), dense channels.
        index: int32 or int64 [n], n / m per row. Negative indices count from the end. An index out of range
            fails the run.
        y: Bytes or float32 (1, 1, n, out / groups).
        packed: The result of `pack` for the same kernel and weights [out, 1, 1, in] in `groups`, as for a
            grouped convolution.
        epilogue: The epilogue of all `out` channels; without a residual.
        kernel: A kernel of the family "gemm" that is not tiled (`is_tiled`).
        threads, zero: As for `conv`.
    Raises:
        ValueError: Views and weights do not fit each other.
    """
    return _native.step_chosen_linear(kernel, x, index, y, packed, epilogue.native, threads, zero)


def is_tiled(kernel: str) -> bool:
    """Return whether a kernel uses tile registers (AMX), for which its weights are packed."""
    return _native.gemm_tiled(kernel)


def is_grouped(kernel: str) -> bool:
    """Return whether steps of a kernel share 16-bit sums, so that its speed depends on the weights."""
    return _native.gemm_grouped(kernel)


def fills(kernel: str, *, pixels: int, window: int, channels: int) -> bool:
    """Return whether a convolution of this size fills the registers of a kernel.

    Args:
        pixels: Output pixels.
        window: Bytes of a window.
        channels: Output channels of a group.
    """
    return _native.gemm_fills(kernel, pixels, window, channels)


def winograd_fits(weight: NDArray[np.int8], *, high: int) -> bool:
    """Return whether Winograd's algorithm for a 3x3 convolution of stride 1 is proved exact for these
    weights.

    Args:
        weight: int8 [out, 3, 3, in]: `in` has to be a multiple of 32, and no output may reach 2^25.
        high: The largest byte that the input can hold.
    """
    return _native.winograd_fits(np.ascontiguousarray(weight), high)


def winograd_pays(
    y: View, channels: int, *, threads: int = 1, kernel: str | None = None, direct: str | None = None
) -> bool:
    """Return whether `winograd` is faster than `conv`.

    Args:
        y: The output, (n, h, w, c).
        channels: Channels of the input.
        threads: The number of threads that share the work.
        kernel, direct: The kernels of `winograd` and of `conv`; the chosen ones by default.
    """
    n, h, w, out = y.sizes
    defaults = kernels_in_use()
    sizes = (n, h, w, channels, out)
    return _native.winograd_pays(kernel or defaults[WINOGRAD], direct or defaults[FAMILY], sizes, threads)


def pack_winograd(weight: NDArray[np.int8], *, high: int, kernel: str | None = None) -> NDArray[np.uint8]:
    """Pack weights for `winograd`; arguments and result are those of `pack`.

    Raises:
        ValueError: Weights that `winograd_fits` refuses.
    """
    packed = _native.pack_winograd(kernel or kernels_in_use()[WINOGRAD], np.ascontiguousarray(weight), high)
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
    """Make a 3x3 convolution of stride 1 by Winograd's algorithm, with the same bits as `conv`.

    It needs a quarter of the products. Arguments and errors are those of `conv`; `packed` is the result of
    `pack_winograd`.
    """
    return _native.step_winograd(
        kernel or kernels_in_use()[WINOGRAD],
        x,
        y,
        packed,
        origin,
        epilogue.native,
        threads,
    )
