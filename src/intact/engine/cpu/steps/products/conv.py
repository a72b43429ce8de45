"""Convolutions with constant weights."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.depthwise import bind_depthwise, is_depthwise
from intact.engine.cpu.steps.base.partial_conv import PartialConv, native_conv
from intact.engine.steps import Conv
from intact.kernels import NativeStep


@binds(Conv)
def bind_conv(step: Conv, binding: Binding) -> list[NativeStep]:
    """A convolution; one of each channel by itself has kernels of its own."""
    if is_depthwise(step, binding):
        return bind_depthwise(step, binding)
    residual = binding.image(step.epilogue.residual) if step.epilogue.residual else None
    part = PartialConv(
        binding.image(step.x),
        binding.image(step.y),
        residual,
        binding.weight(step.weight),
        step.strides,
        step.dilations,
        (-step.pads[0], -step.pads[1]),
        step.groups,
        binding.image(step.low) if step.low else None,
    )
    return [native_conv(part, step, binding)]
