"""Transposed convolutions of floats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.phases import are_side_by_side, every_stride, taps_label
from intact.engine.steps import FloatConvTranspose
from intact.kernels import SLACK, NativeStep, PixelWindow, View, float_gemm
from intact.numerics import phases


@binds(FloatConvTranspose)
def bind_float_conv_transpose(step: FloatConvTranspose, binding: Binding) -> list[NativeStep]:
    """Bind as `bind_conv_transpose` does, in float32.

    An output that no tap reaches has a window of one pixel of 0.
    """
    x, y, weight = binding.image(step.x), binding.image(step.y), binding.weight(step.weight)
    kernel = binding.kernels[float_gemm.FAMILY]
    axes = [phases(weight.shape[1 + i], step.strides[i], step.dilations[i], step.pads[i]) for i in range(2)]
    joined = step.groups == 1 and len({w.window for w in axes[1]}) == 1 and are_side_by_side(axes[1], [y])
    native_steps = []
    for h in axes[0]:
        for together in [axes[1]] if joined else [[w] for w in axes[1]]:
            w, number = together[0], len(together)
            if h.first >= y.sizes[1] or w.first >= y.sizes[2]:
                continue
            part = every_stride(y, (h.first, w.first), step.strides, number)
            taps = np.concatenate([weight[:, h.taps][:, :, phase.taps] for phase in together])
            read, window, origin = x, (len(h.taps), len(w.taps)), (h.origin, w.origin)
            if 0 in window:
                read, window, origin = _nothing(part, x.sizes[3], binding), (1, 1), (0, 0)
                taps = np.zeros((len(taps), 1, 1, weight.shape[3]), np.float32)

            def pack(taps: NDArray[np.float32] = taps) -> NDArray[np.float32]:
                return float_gemm.pack_filters(taps, step.groups, kernel)

            label = f"{taps_label(h.taps)}." + "+".join(taps_label(phase.taps) for phase in together)
            top, left = origin
            native_steps.append(
                float_gemm.conv(
                    read,
                    part,
                    binding.pack_constant(step.weight, f"{kernel}.filters{step.groups}.{label}", pack),
                    PixelWindow(window, (1, 1), (h.dilation, w.dilation), (-top, -left, 0, 0)),
                    groups=step.groups,
                    start=_starts(step.bias, number, binding),
                    kernel=kernel,
                )
            )
    return native_steps


def _starts(bias: str, number: int, binding: Binding) -> View | None:
    """The starts of outputs that stand so many times side by side."""
    if not bias:
        return None
    if number == 1:
        return binding.constant(bias)
    return binding.hold(np.tile(binding.array(bias), number))


def _nothing(part: View, channels: int, binding: Binding) -> View:
    """An image of 0, as many pixels as `part` has, all of them one."""
    n, h, w, _ = part.sizes
    return binding.hold(np.zeros(channels + SLACK, np.float32)).part(0, (n, h, w, channels), (0, 0, 0, 4))
