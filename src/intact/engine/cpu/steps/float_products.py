"""Products and convolutions of floats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.operands import spread
from intact.engine.steps import FloatConv, FloatLinear, FloatMatMul
from intact.kernels import float_gemm
from intact.kernels.program import NativeStep, View
from intact.kernels.window import PixelWindow


@binds(FloatLinear)
def bind_float_linear(step: FloatLinear, binding: Binding) -> list[NativeStep]:
    """Rows, read and written where they lie, times a matrix that is packed once."""
    kernel = binding.kernels[float_gemm.FAMILY]

    def pack() -> NDArray[np.float32]:
        return float_gemm.pack(binding.weight(step.weight), kernel)

    packed = binding.packed(step.weight, kernel, pack)
    x, y = binding.view(step.x), binding.view(step.y)
    return [float_gemm.matmul(x, y, packed, _start(binding, step.bias), binding.kernels)]


@binds(FloatMatMul)
def bind_float_matmul(step: FloatMatMul, binding: Binding) -> list[NativeStep]:
    """Product of two tensors, read where they lie; rows by one matrix for all of them are one matrix."""
    y = binding.view(step.y)
    lead = tuple(y.sizes)[:-2]
    a, b = (spread(binding, n, (*lead, *binding.view(n).sizes[-2:])).view for n in (step.a, step.b))
    if not any(b.strides[axis] for axis in range(len(lead))):
        rows, made = _rows(a), _rows(y)
        if rows is not None and made is not None:
            a, y, b = rows, made, b.part(b.offset, b.sizes[-2:], b.strides[-2:])
    return [float_gemm.matmul(a, y, b, kernels=binding.kernels)]


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
            binding.packed(step.weight, f"{kernel}.filters{step.groups}", pack),
            window,
            groups=step.groups,
            start=_start(binding, step.bias),
            kernel=kernel,
        )
    ]


def _start(binding: Binding, bias: str) -> View | None:
    return binding.constant(bias) if bias else None


def _rows(view: View) -> View | None:
    """All but the last axis as one; None where its elements are not evenly spaced."""
    sizes, strides = list(view.sizes), list(view.strides)
    while len(sizes) > 2:
        if sizes[0] == 1 or strides[0] == strides[1] * sizes[1]:
            sizes, strides = [sizes[0] * sizes[1], *sizes[2:]], strides[1:]
        elif sizes[1] == 1:
            sizes, strides = [sizes[0], *sizes[2:]], [strides[0], *strides[2:]]
        else:
            return None
    return view.part(view.offset, sizes, strides)
