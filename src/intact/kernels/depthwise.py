"""Makers of native steps of depthwise convolutions.

Each returns a step for `Program.add`. Codes are bytes, and zero points and bounds are bytes, too. Images are
views (n, h, w, c) with dense channels. Makers raise ValueError for a step that is unsafe to run
(csrc/base/check.h).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native
from intact.kernels.epilogue import BoundEpilogue
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import Kernels, kernels_or_chosen
from intact.kernels.window import PixelWindow


def depthwise(
    x: View,
    y: View,
    weight: NDArray[Any],
    window: PixelWindow,
    epilogue: BoundEpilogue,
    kernels: Kernels | None = None,
    low: View | None = None,
) -> NativeStep:
    """Make a depthwise convolution.

    Args:
        x: Image of bytes; padding is read from its halo. AVX2 multiplies more taps at once where its
            bytes are at most 127.
        y: Image of bytes or of float32.
        weight: int8 [kernel_h, kernel_w, channels].
        window: `kernel` is that of `weight`.
        epilogue: The epilogue from sums to y.
        kernels: The kernel of each family.
        low: Low bytes of codes of 16 bits, which are ``256 * x + low``; a view like `x`.
    """
    return _native.step_depthwise(
        kernels_or_chosen(kernels)["depthwise"],
        x,
        y,
        np.ascontiguousarray(weight, np.int8),
        window.strides,
        window.dilations,
        window.pads[:2],
        epilogue.native,
        low,
    )
