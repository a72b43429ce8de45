"""float32 -> the high and the low bytes of codes of 16 bits."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import SplitQuantize
from intact.kernels import NativeStep, pointwise


@binds(SplitQuantize)
def bind_split_quantize(step: SplitQuantize, binding: Binding) -> list[NativeStep]:
    """float32 -> the high and the low bytes of codes of 16 bits."""
    x, spec = binding.view(step.x), step.spec
    ends = int(spec.qmin) - step.zero_point, int(spec.qmax) - step.zero_point
    high, low = binding.view(step.high), binding.view(step.low)
    return [pointwise.split_quantize(x, high, low, step.scale, ends, binding.kernels)]
