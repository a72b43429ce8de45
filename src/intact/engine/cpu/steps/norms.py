"""Softmax and LayerNorm."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds, dense_view
from intact.engine.cpu.fuse import NormAndCodes
from intact.engine.cpu.steps.operands import operand_of, spread, turned
from intact.engine.steps import LayerNorm, Softmax
from intact.kernels import float_steps
from intact.kernels.float_steps import Real
from intact.kernels.program import NativeStep, View


@binds(Softmax)
def bind_softmax(step: Softmax, binding: Binding) -> list[NativeStep]:
    """Softmax along any axis: it becomes the last one of the views."""
    shape = binding.shape(step.y)
    axis = step.axis % len(shape)
    order = [*(i for i in range(len(shape)) if i != axis), axis]
    x, y = (turned(operand_of(binding, name), order) for name in (step.x, step.y))
    mask = turned(spread(binding, step.mask, shape), order) if step.mask else None
    return [float_steps.softmax(x, y, step.gain, mask, binding.kernels)]


@binds(LayerNorm)
def bind_layer_norm(step: LayerNorm, binding: Binding) -> list[NativeStep]:
    """LayerNorm, with the residual that is added in front of it."""
    return _layer_norm(step, binding)


@binds(NormAndCodes)
def bind_norm_and_codes(step: NormAndCodes, binding: Binding) -> list[NativeStep]:
    """LayerNorm, and the codes of what it makes."""
    factors = _vector(binding, step.factors) if step.factors else None
    return _layer_norm(step.norm, binding, operand_of(binding, step.quantize.y), factors)


def _vector(binding: Binding, name: str) -> View:
    """A constant that varies along one axis alone, by that axis."""
    dense, array = binding.constant(name), binding.array(name)
    return dense_view(dense.block, dense.offset, array.dtype.name, (array.size,))


def _layer_norm(
    step: LayerNorm, binding: Binding, codes: Real | None = None, factors: View | None = None
) -> list[NativeStep]:
    weight, bias = (binding.constant(name) if name else None for name in (step.weight, step.bias))
    residual = operand_of(binding, step.residual) if step.residual else None
    return [
        float_steps.layer_norm(
            operand_of(binding, step.x),
            operand_of(binding, step.y),
            step.epsilon,
            weight=weight,
            bias=bias,
            residual=residual,
            codes=codes,
            factors=factors,
            kernels=binding.kernels,
        )
    ]
