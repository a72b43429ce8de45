"""Convolutions of floats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import constant_or_none
from intact.engine.steps import FloatConv
from intact.kernels import NativeStep, PixelWindow, float_gemm


@binds(FloatConv)
def bind_float_conv(step: FloatConv, binding: Binding) -> list[NativeStep]:
    """A convolution; one of each channel by itself has filters that no kernel packs."""
    kernel, weight = binding.kernels[float_gemm.FAMILY], binding.weight(step.weight)

    def pack() -> NDArray[np.float32]:
        return float_gemm.pack_filters(weight, step.groups, kernel)

    window = PixelWindow((weight.shape[1], weight.shape[2]), step.strides, step.dilations, step.pads)
    return [
        float_gemm.conv(
            binding.image(step.x),
            binding.image(step.y),
            binding.pack_constant(step.weight, f"{kernel}.filters{step.groups}", pack),
            window,
            groups=step.groups,
            start=constant_or_none(binding, step.bias),
            kernel=kernel,
        )
    ]
