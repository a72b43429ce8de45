"""Products of two activations, and attention."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds, dense_view, dtype_of
from intact.engine.cpu.fuse import Attention
from intact.engine.cpu.steps.epilogue import bound_epilogue
from intact.engine.cpu.steps.operands import as_operand, operand_of, spread
from intact.engine.steps import MatMul, Shape
from intact.kernels import float_steps
from intact.kernels.float_steps import Product, Real
from intact.kernels.program import NativeStep


@binds(MatMul)
def bind_matmul(step: MatMul, binding: Binding) -> list[NativeStep]:
    """Product of two activations, read where they lie."""
    a = spread(binding, step.a, _matrices(binding, step.a, binding.shape(step.y)))
    return [float_steps.matmul(_product(step, binding, a, operand_of(binding, step.y)), binding.kernels)]


@binds(Attention)
def bind_attention(step: Attention, binding: Binding) -> list[NativeStep]:
    """Scores, softmax and values in one."""
    shape = binding.shape(step.scores.y)
    made, weights = (as_operand(dense_view(0, 0, dtype_of(t), shape), t) for t in step.between)
    a = spread(binding, step.a, _matrices(binding, step.a, shape))
    scores = _product(step.scores, binding, a, made)
    product = _product(step.product, binding, weights, operand_of(binding, step.y))
    mask = spread(binding, step.mask, shape) if step.mask else None
    return [
        float_steps.attention(scores, product, gain=step.softmax.gain, mask=mask, kernels=binding.kernels)
    ]


def _product(step: MatMul, binding: Binding, a: Real, y: Real) -> Product:
    """The product of a and the step's b."""
    b = spread(binding, step.b, _matrices(binding, step.b, binding.shape(step.y)))
    return Product(a, b, y, bound_epilogue(step.epilogue, step.y, binding, channels=1))


def _matrices(binding: Binding, name: str, shape: Shape) -> Shape:
    """The matrices of a tensor under the leading axes of `shape`."""
    return (*shape[:-2], *binding.shape(name)[-2:])
