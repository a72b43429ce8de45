"""Convolutions of each channel by itself, as native steps.

Each returns a step for `Program.add`. Codes are bytes; every zero point and bound here is one of bytes.
Images are views (n, h, w, c) whose channels are neighbours. Makers raise ValueError for what is unsafe to
run (csrc/base/check.h).
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
    """Convolution of each channel by itself.

    Args:
        x: Image of bytes; padding is read from its halo. Where it holds bytes up to 127, AVX2 takes more taps
            at a time.
        y: Image of bytes or of float32.
        weight: int8 [kernel_h, kernel_w, channels].
        window: `kernel` is that of `weight`.
        epilogue: From sums to y.
        kernels: The kernel of each family.
        low: As `x`: what is multiplied is ``256 * x + low``.
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
