"""Native steps for what is computed in floats, and for the product of two activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from intact.engine.bind.core import Binding, Shape, binder, dense_view, dtype_of
from intact.engine.bind.fuse import Attention, NormAndCodes
from intact.engine.steps import Binary, Clip, Function, LayerNorm, MatMul, Reduce, Softmax, Tensor
from intact.kernels import float_steps
from intact.kernels.float_steps import Product, Real
from intact.kernels.program import NativeStep, View


@binder("function", in_place=("x",))
def bind_function(step: Function, binding: Binding) -> list[NativeStep]:
    """A function of one real."""
    x, y = _real(binding, step.x), _real(binding, step.y)
    return [float_steps.function(x, y, step.function, binding.kernels)]


@binder("clip", in_place=("x",))
def bind_clip(step: Clip, binding: Binding) -> list[NativeStep]:
    """Bounds of floats."""
    low = float("-inf") if step.low is None else step.low
    high = float("inf") if step.high is None else step.high
    return [float_steps.clip(_real(binding, step.x), _real(binding, step.y), low, high, binding.kernels)]


@binder("binary", in_place=("a", "b"))
def bind_binary(step: Binary, binding: Binding) -> list[NativeStep]:
    """A function of two floats, with broadcasting."""
    a, b, y = (_spread(binding, name, binding.shape(step.y)) for name in (step.a, step.b, step.y))
    return [float_steps.binary(a, b, y, step.function, binding.kernels)]


@binder("reduce", strided=True)
def bind_reduce(step: Reduce, binding: Binding) -> list[NativeStep]:
    """A sum or a mean along axes: they become the last ones of x, and y has the others."""
    x, y = _real(binding, step.x), _real(binding, step.y)
    kept = [axis for axis in range(len(x.view.sizes)) if axis not in step.axes]
    inner = sorted(step.axes)
    written = _turned(y, kept) if step.keepdims else y
    mean = step.function == "mean"
    return [float_steps.reduce(_turned(x, [*kept, *inner]), written, mean, binding.kernels)]


@binder("softmax", in_place=("x",))
def bind_softmax(step: Softmax, binding: Binding) -> list[NativeStep]:
    """Softmax along any axis: it becomes the last one of the views."""
    shape = binding.shape(step.y)
    axis = step.axis % len(shape)
    order = [*(i for i in range(len(shape)) if i != axis), axis]
    x, y = (_turned(_real(binding, name), order) for name in (step.x, step.y))
    mask = _turned(_spread(binding, step.mask, shape), order) if step.mask else None
    return [float_steps.softmax(x, y, step.gain, mask, binding.kernels)]


@binder("layer_norm", in_place=("x",))
def bind_layer_norm(step: LayerNorm, binding: Binding) -> list[NativeStep]:
    """LayerNorm, with the residual that is added in front of it."""
    return _layer_norm(step, binding)


@binder("norm_and_codes", in_place=("x",))
def bind_norm_and_codes(step: NormAndCodes, binding: Binding) -> list[NativeStep]:
    """LayerNorm, and the codes of what it makes."""
    factors = _vector(binding, step.factors) if step.factors else None
    return _layer_norm(step.norm, binding, _real(binding, step.quantize.y), factors)


def _vector(binding: Binding, name: str) -> View:
    """A constant that varies along one axis alone, by that axis."""
    dense, array = binding.constant(name), binding.array(name)
    return dense_view(dense.block, dense.offset, array.dtype.name, (array.size,))


def _layer_norm(
    step: LayerNorm, binding: Binding, codes: Real | None = None, factors: View | None = None
) -> list[NativeStep]:
    weight, bias = (binding.constant(name) if name else None for name in (step.weight, step.bias))
    residual = _real(binding, step.residual) if step.residual else None
    return [
        float_steps.layer_norm(
            _real(binding, step.x),
            _real(binding, step.y),
            step.epsilon,
            weight=weight,
            bias=bias,
            residual=residual,
            codes=codes,
            factors=factors,
            kernels=binding.kernels,
        )
    ]


@binder("matmul", strided=True)
def bind_matmul(step: MatMul, binding: Binding) -> list[NativeStep]:
    """Product of two activations, read where they lie."""
    a = _spread(binding, step.a, _matrices(binding, step.a, binding.shape(step.y)))
    return [float_steps.matmul(_product(step, binding, a, _real(binding, step.y)), binding.kernels)]


@binder("attention", strided=True)
def bind_attention(step: Attention, binding: Binding) -> list[NativeStep]:
    """Scores, softmax and values in one."""
    shape = binding.shape(step.scores.y)
    made, weights = (_as_real(dense_view(0, 0, dtype_of(t), shape), t) for t in step.between)
    a = _spread(binding, step.a, _matrices(binding, step.a, shape))
    scores = _product(step.scores, binding, a, made)
    product = _product(step.product, binding, weights, _real(binding, step.y))
    mask = _spread(binding, step.mask, shape) if step.mask else None
    return [
        float_steps.attention(scores, product, gain=step.softmax.gain, mask=mask, kernels=binding.kernels)
    ]


def _product(step: MatMul, binding: Binding, a: Real, y: Real) -> Product:
    """The product of a and the step's b, within the epilogue's bounds."""
    b = _spread(binding, step.b, _matrices(binding, step.b, binding.shape(step.y)))
    multiplier = float(binding.array(step.epilogue.multiplier).reshape(-1)[0])
    low, high = step.epilogue.low, step.epilogue.high
    if (codes := binding.plan.tensors[step.y].codes) is None:
        ends = float("-inf") if low is None else low, float("inf") if high is None else high
        return Product(a, b, y, multiplier, *ends)
    bounds = (codes.low if low is None else int(low)), (codes.high if high is None else int(high))
    y = replace(y, low=bounds[0] + codes.offset, high=bounds[1] + codes.offset)
    return Product(a, b, y, multiplier)


def _matrices(binding: Binding, name: str, shape: Shape) -> Shape:
    """The matrices of a tensor under the leading axes of `shape`."""
    return (*shape[:-2], *binding.shape(name)[-2:])


def _real(binding: Binding, name: str) -> Real:
    """A tensor or a constant as floats."""
    if name in binding.plan.constants:
        return Real(binding.constant(name))
    return _as_real(binding.view(name), binding.tensor(name))


def _as_real(view: View, tensor: Tensor) -> Real:
    if (codes := tensor.codes) is None:
        return Real(view)
    low, high = codes.low + codes.offset, codes.high + codes.offset
    return Real(view, codes.scale, codes.zero_point + codes.offset, low, high)


def _spread(binding: Binding, name: str, shape: Shape) -> Real:
    """A tensor under a larger shape: axes of size 1 and missing ones get strides of 0."""
    real = _real(binding, name)
    sizes, strides = tuple(real.view.sizes), tuple(real.view.strides)
    missing = len(shape) - len(sizes)
    sizes, strides = (1,) * missing + sizes, (0,) * missing + strides
    spread = [0 if n == 1 else s for n, s in zip(sizes, strides, strict=True)]
    return replace(real, view=real.view.part(real.view.offset, shape, spread))


def _turned(real: Real, order: Sequence[int]) -> Real:
    sizes, strides = ([axes[i] for i in order] for axes in (real.view.sizes, real.view.strides))
    return replace(real, view=real.view.part(real.view.offset, sizes, strides))
