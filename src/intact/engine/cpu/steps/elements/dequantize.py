"""codes -> float32."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import zero_of
from intact.engine.steps import Dequantize
from intact.kernels import NativeStep, pointwise


@binds(Dequantize)
def bind_dequantize(step: Dequantize, binding: Binding) -> list[NativeStep]:
    """codes -> float32."""
    codes = binding.codes(step.x)
    x, y = binding.view(step.x), binding.view(step.y)
    return [pointwise.dequantize(x, y, codes.scale, zero_of(codes), binding.kernels)]
