"""Makers of native steps that pool bytes, or floats, over windows.

Each returns a step for `Program.add`. Codes are bytes, and zero points and bounds are bytes, too. Images are
views (n, h, w, c) with dense channels. Makers raise ValueError for a step that is unsafe to run
(csrc/base/check.h).
"""

from __future__ import annotations

from intact.kernels import _native
from intact.kernels.epilogue import Bytes
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import Kernels, kernels_or_chosen
from intact.kernels.window import PixelWindow


def max_pool(x: View, y: View, window: PixelWindow, kernels: Kernels | None = None) -> NativeStep:
    """Make the step for the largest byte of each window (N27); padding never wins."""
    w = window
    name = kernels_or_chosen(kernels)["pool"]
    return _native.step_max_pool(name, x, y, w.kernel, w.strides, w.dilations, w.pads)


def float_max_pool(x: View, y: View, window: PixelWindow, kernels: Kernels | None = None) -> NativeStep:
    """Make the step for the largest float32 of each window (N27); padding never wins."""
    w = window
    name = kernels_or_chosen(kernels)["float_steps"]
    return _native.step_float_max_pool(name, x, y, w.kernel, w.strides, w.dilations, w.pads)


def mean_pool(
    x: View,
    y: View,
    window: PixelWindow,
    from_x: tuple[int, float],
    scale: float,
    grid: Bytes,
    *,
    include_pads: bool = False,
    kernels: Kernels | None = None,
) -> NativeStep:
    """Make the step for the mean of each window (N27).

    Args:
        x, y: Images of bytes.
        window: The window.
        from_x: The zero point and scale of x.
        scale, grid: Those of y.
        include_pads: Count padding in n; taps beyond the padding never count.
        kernels: The kernel of each family.
    """
    w = window
    zero, x_scale = from_x
    name, last = kernels_or_chosen(kernels)["pool"], (include_pads, x_scale, scale, zero, grid.as_tuple())
    return _native.step_mean_pool(name, x, y, w.kernel, w.strides, w.dilations, w.pads, *last)
