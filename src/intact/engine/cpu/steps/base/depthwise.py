"""Convolutions of each channel by itself, which have kernels of their own."""

from __future__ import annotations

import numpy as np

from intact.engine.cpu.binding import Binding
from intact.engine.cpu.steps.base.epilogue import bind_epilogue
from intact.engine.cpu.steps.base.views import zero_of
from intact.engine.steps import Conv
from intact.kernels import NativeStep, PixelWindow, depthwise


def is_depthwise(step: Conv, binding: Binding) -> bool:
    """Whether `bind_depthwise` takes this convolution: each channel by itself."""
    out, _, _, inputs = binding.weight(step.weight).shape
    return step.groups > 1 and inputs == 1 and out == step.groups and not step.shift


def bind_depthwise(step: Conv, binding: Binding) -> list[NativeStep]:
    """A convolution of each channel by itself; `bind_conv` hands it over."""
    weight = binding.array(step.weight)
    window = PixelWindow((weight.shape[1], weight.shape[2]), step.strides, step.dilations, step.pads)
    taps = np.ascontiguousarray(weight[..., 0].transpose(1, 2, 0))
    zero = zero_of(binding.codes(step.x))
    if step.low:
        zero = 256 * zero + zero_of(binding.codes(step.low))
    correction = -zero * weight.astype(np.int64).sum(axis=(1, 2, 3))
    residual = binding.image(step.epilogue.residual) if step.epilogue.residual else None
    epilogue = bind_epilogue(
        step.epilogue, step.y, binding, channels=len(weight), correction=correction, residual=residual
    )
    x, y = binding.image(step.x), binding.image(step.y)
    low = binding.image(step.low) if step.low else None
    return [depthwise.depthwise(x, y, taps, window, epilogue, binding.kernels, low)]
