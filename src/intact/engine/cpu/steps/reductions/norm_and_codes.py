"""LayerNorm, and the codes of what it makes."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds, dense_view
from intact.engine.cpu.fuse import NormAndCodes
from intact.engine.cpu.steps.base.operands import operand_of
from intact.engine.cpu.steps.reductions.layer_norm import native_layer_norm
from intact.kernels import NativeStep, View


@binds(NormAndCodes)
def bind_norm_and_codes(step: NormAndCodes, binding: Binding) -> list[NativeStep]:
    """LayerNorm, and the codes of what it makes."""
    factors = _vector(binding, step.factors) if step.factors else None
    return native_layer_norm(step.norm, binding, operand_of(binding, step.quantize.y), factors)


def _vector(binding: Binding, name: str) -> View:
    """A constant that varies along one axis alone, by that axis."""
    dense, array = binding.constant(name), binding.array(name)
    return dense_view(dense.block, dense.offset, array.dtype.name, (array.size,))
