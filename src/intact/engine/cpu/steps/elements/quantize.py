"""float32 -> codes."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import grid_of
from intact.engine.steps import Quantize
from intact.kernels import NativeStep, pointwise


@binds(Quantize)
def bind_quantize(step: Quantize, binding: Binding) -> list[NativeStep]:
    """float32 -> codes."""
    codes = binding.codes(step.y)
    x, y = binding.view(step.x), binding.view(step.y)
    return [pointwise.quantize(x, y, codes.scale, grid_of(codes), binding.kernels)]
