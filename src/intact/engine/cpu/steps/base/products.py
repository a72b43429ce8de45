"""Products of two tensors of codes: what a MatMul and an attention have in common."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding
from intact.engine.cpu.steps.base.epilogue import bind_epilogue
from intact.engine.cpu.steps.base.operands import spread
from intact.engine.steps import MatMul, Shape
from intact.kernels import Product, Real


def product_of(step: MatMul, binding: Binding, a: Real, y: Real) -> Product:
    """The product of a and the step's b."""
    b = spread(binding, step.b, matrices_under(binding, step.b, binding.shape(step.y)))
    return Product(a, b, y, bind_epilogue(step.epilogue, step.y, binding, channels=1))


def matrices_under(binding: Binding, name: str, shape: Shape) -> Shape:
    """The matrices of a tensor under the leading axes of `shape`."""
    return (*shape[:-2], *binding.shape(name)[-2:])
