"""Makers of native steps of float32 products and convolutions (N51).

They equal `numerics.float_product` and `float_conv` bit for bit, with every kernel. Weights are packed once
for a kernel; a step is made of them for one set of shapes. Makers raise ValueError for a step that is unsafe
to run (csrc/base/check.h).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native
from intact.kernels.pages import WEIGHTS
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import Kernels, kernels_in_use, kernels_or_chosen
from intact.kernels.window import PixelWindow

FAMILY = "float_gemm"

Floats = NDArray[np.float32]


def pack(matrix: Floats, kernel: str | None = None) -> Floats:
    """Pack a matrix into the panels of columns that a kernel reads.

    Args:
        matrix: float32 [k, n] or [groups, k, n].
        kernel: A kernel of the family "float_gemm"; the chosen one by default.
    Returns:
        float32, the panels of one group after the other.
    """
    name = kernel or kernels_in_use()[FAMILY]
    matrices = np.ascontiguousarray(matrix if matrix.ndim == 3 else matrix[None], np.float32)
    groups, k, n = matrices.shape
    panel = _native.float_panel(name)
    packed = np.empty(groups * -(-n // panel) * panel * k, np.float32)
    _native.pack_floats(name, matrices, packed)
    return WEIGHTS.copy(packed.view(np.uint8)).view(np.float32)


def pack_filters(weight: Floats, groups: int = 1, kernel: str | None = None) -> Floats:
    """Pack filters for `conv`.

    Args:
        weight: float32 [out, kernel_h, kernel_w, in / groups].
        groups: The number of groups of channels.
        kernel: A kernel of the family "float_gemm"; the chosen one by default.
    """
    outputs, _, _, depth = weight.shape
    if groups == outputs > 1 and depth == 1:  # a depthwise convolution has no panels
        return np.ascontiguousarray(weight.reshape(outputs, -1).T).reshape(-1)
    return pack(weight.reshape(groups, outputs // groups, -1).transpose(0, 2, 1), kernel)


def matmul(
    a: View, y: View, b: View | Floats, start: View | None = None, kernels: Kernels | None = None
) -> NativeStep:
    """Make the step ``y[..., i, j] = start[j] + sum_k a[..., i, k] * b[..., k, j]``, k ascending.

    Args:
        a: float32, with the leading sizes of y.
        y: float32.
        b: A view with the leading sizes of y, and strides of 0 where it broadcasts; or the result of `pack`
            for one matrix and the same kernel, which is not copied.
        start: float32 [j], dense; None: +0.
        kernels: The kernel of each family.
    """
    k = kernels_or_chosen(kernels)
    view, packed = (b, None) if isinstance(b, View) else (None, b)
    return _native.step_float_matmul(k[FAMILY], k["transpose"], a, y, view, packed, start)


def conv(
    x: View,
    y: View,
    packed: Floats,
    window: PixelWindow,
    *,
    groups: int = 1,
    start: View | None = None,
    kernel: str | None = None,
) -> NativeStep:
    """Make a convolution.

    Args:
        x, y: float32 (n, h, w, c), dense channels. Padding is read from the halo of x, which holds +0.
        packed: The result of `pack_filters` for the same groups and kernel; it is not copied.
        window: Kernel, strides, dilations and pads.
        groups: The number of groups of channels.
        start: float32 [out], dense; None: +0.
        kernel: A kernel of the family "float_gemm"; the chosen one by default.
    """
    top, left = window.pads[:2]
    return _native.step_float_conv(
        kernel or kernels_in_use()[FAMILY],
        x,
        y,
        packed,
        window.kernel,
        window.strides,
        window.dilations,
        (-top, -left),
        groups,
        start,
    )
