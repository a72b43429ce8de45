"""Products of floats with constant matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import constant_or_none
from intact.engine.steps import FloatLinear
from intact.kernels import NativeStep, float_gemm


@binds(FloatLinear)
def bind_float_linear(step: FloatLinear, binding: Binding) -> list[NativeStep]:
    """Rows, read and written where they lie, times a matrix that is packed once."""
    kernel = binding.kernels[float_gemm.FAMILY]

    def pack() -> NDArray[np.float32]:
        return float_gemm.pack(binding.weight(step.weight), kernel)

    packed = binding.pack_constant(step.weight, kernel, pack)
    x, y = binding.view(step.x), binding.view(step.y)
    return [float_gemm.matmul(x, y, packed, constant_or_none(binding, step.bias), binding.kernels)]
