"""Convolutions of each channel by itself, which have kernels of their own."""

from __future__ import annotations

import numpy as np

from intact.engine.cpu.binding import Binding
from intact.engine.cpu.steps.views import grid_of, zero_of
from intact.engine.steps import Conv
from intact.kernels import planes
from intact.kernels.planes import Window
from intact.kernels.program import NativeStep


def is_depthwise(step: Conv, binding: Binding) -> bool:
    """Whether `bind_depthwise` takes this convolution: each channel by itself."""
    out, _, _, inputs = binding.weight(step.weight).shape
    return step.groups > 1 and inputs == 1 and out == step.groups and not step.epilogue.factors


def bind_depthwise(step: Conv, binding: Binding) -> list[NativeStep]:
    """A convolution of each channel by itself; `bind_conv` hands it over."""
    weight = binding.array(step.weight)
    window = Window((weight.shape[1], weight.shape[2]), step.strides, step.dilations, step.pads)
    taps = np.ascontiguousarray(weight[..., 0].transpose(1, 2, 0))
    epilogue = _depthwise_epilogue(step, binding)
    x, y = binding.image(step.x), binding.image(step.y)
    return [planes.depthwise(x, y, taps, window, epilogue, binding.kernels)]


def _depthwise_epilogue(step: Conv, binding: Binding) -> planes.DepthwiseEpilogue:
    epilogue, weight = step.epilogue, binding.array(step.weight)
    channels = weight.shape[0]
    correction = -zero_of(binding.codes(step.x)) * weight.astype(np.int64).sum(axis=(1, 2, 3))
    if epilogue.integer_bias:
        correction = correction + binding.array(epilogue.integer_bias)
    codes = binding.tensor(step.y).codes
    clamps = not epilogue.activation  # a function's output has the whole grid, or all floats
    low, high = (epilogue.low, epilogue.high) if clamps else (None, None)
    bias = binding.array(epilogue.bias) if epilogue.bias else np.float32(0)
    return planes.DepthwiseEpilogue(
        multiplier=np.broadcast_to(binding.array(epilogue.multiplier), channels),
        bias=np.broadcast_to(bias, channels),
        correction=correction.astype(np.int32),
        grid=None if codes is None else grid_of(codes, low, high),
        low=low if codes is None and low is not None else float("-inf"),
        high=high if codes is None and high is not None else float("inf"),
        residual=binding.image(epilogue.residual) if epilogue.residual else None,
        residual_multiplier=epilogue.residual_multiplier,
        residual_zero=zero_of(binding.codes(epilogue.residual)) if epilogue.residual else 0,
        function=epilogue.activation,
        scale=1.0 if codes is None else codes.scale,
        slopes=np.broadcast_to(binding.array(epilogue.slope), channels) if epilogue.slope else None,
    )
