"""The sizes of every tensor, from those of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from intact.engine.arrays import rest
from intact.engine.bind.core import peek
from intact.engine.plan import Plan
from intact.engine.steps import (
    OUTSIDE,
    Concat,
    Conv,
    ConvTranspose,
    Gather,
    Linear,
    MatMul,
    Pad,
    Pool,
    Reduce,
    Resize,
    Slice,
    Transpose,
)
from intact.errors import QuantValueError
from intact.numerics.windows import Window

Shape = tuple[int, ...]
FallbackShapes = Callable[[Any, Mapping[str, Shape]], Mapping[str, Shape]]


def infer_shapes(plan: Plan, inputs: Mapping[str, Shape], subgraph: FallbackShapes) -> dict[str, Shape]:
    """Sizes of all tensors of a plan, in ONNX's order.

    Args:
        plan: The plan.
        inputs: Sizes of its inputs.
        subgraph: The sizes of what a subgraph makes, where the plan does not say them.
    Raises:
        QuantValueError: Sizes contradict each other or the plan; names tensor and dimension.
    """
    sizes = Sizes(plan)
    for name in plan.inputs:
        sizes.bind(name, inputs[name])
    for step in plan.steps:
        if isinstance(step, OUTSIDE):
            made = sizes.declared_all(step.ys) or subgraph(step, sizes.shapes)
            for name in step.ys:
                sizes.bind(name, made[name])
            continue
        y = getattr(step, "y")  # noqa: B009  # every other step has one
        try:
            shape = _RULES[step.kind](step, sizes)
        except QuantValueError as error:
            raise error.at(f"step '{step.name}'") from error
        sizes.bind(y, shape)
    return sizes.shapes


class Sizes:
    """What is known so far.

    Attributes:
        shapes: Of tensors.
        dims: The sizes that named dimensions turned out to have.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.shapes: dict[str, Shape] = {}
        self.dims: dict[str, int] = {}

    def of(self, name: str) -> Shape:
        """A tensor's sizes, or a constant's."""
        return self.shapes[name] if name in self.shapes else peek(self._plan, name).shape

    def declared(self, name: str) -> tuple[int | None, ...]:
        """What the plan says about a tensor; None where nobody knows the named dimension yet."""
        return tuple(self.dims.get(d) if isinstance(d, str) else d for d in self._plan.tensors[name].shape)

    def declared_all(self, names: tuple[str, ...]) -> dict[str, Shape] | None:
        """Sizes of tensors, if the plan knows them all."""
        known: dict[str, Shape] = {}
        for name in names:
            shape = tuple(d for d in self.declared(name) if d is not None)
            if len(shape) != len(self._plan.tensors[name].shape):
                return None
            known[name] = shape
        return known

    def bind(self, name: str, shape: Shape) -> None:
        """Store a tensor's sizes, and learn those of its named dimensions."""
        wanted = self._plan.tensors[name].shape
        if len(wanted) != len(shape):
            raise _mismatch(name, f"{len(shape)} dimensions {shape}", f"{len(wanted)} dimensions {wanted}")
        for axis, (dim, size) in enumerate(zip(wanted, shape, strict=True)):
            want = self.dims.setdefault(dim, size) if isinstance(dim, str) else dim
            if want != size:
                named = f" ('{dim}')" if isinstance(dim, str) else ""
                raise _mismatch(name, f"size {size} in dimension {axis}{named}", f"{want}")
        self.shapes[name] = shape


def _mismatch(name: str, got: str, want: str) -> QuantValueError:
    return QuantValueError(
        f"tensor '{name}'", got, want, "give inputs of the shapes that the model was made for"
    )


def _same(step: Any, sizes: Sizes) -> Shape:
    return sizes.of(step.x)


def _windows(x: Shape, kernel: tuple[int, int], step: Conv | Pool, ceil_mode: bool = False) -> Shape:
    top, left, bottom, right = step.pads
    window = Window.of(kernel, 2, step.strides, ((top, bottom), (left, right)), step.dilations, ceil_mode)
    return window.positions(x[2:])


def _conv(step: Conv, sizes: Sizes) -> Shape:
    x, (out, kernel_h, kernel_w, _) = sizes.of(step.x), sizes.of(step.weight)
    return x[0], out, *_windows(x, (kernel_h, kernel_w), step)


def _conv_transpose(step: ConvTranspose, sizes: Sizes) -> Shape:
    x, (out, *kernel, _) = sizes.of(step.x), sizes.of(step.weight)
    pads = (step.pads[0] + step.pads[2], step.pads[1] + step.pads[3])
    spatial = tuple(
        (n - 1) * s + (k - 1) * d + 1 + extra - pad
        for n, s, k, d, extra, pad in zip(
            x[2:], step.strides, kernel, step.dilations, step.output_padding, pads, strict=True
        )
    )
    if min(spatial) < 1:
        raise _mismatch(step.x, f"sizes {x[2:]}", "sizes of which the pads leave something")
    return x[0], out, *spatial


def _linear(step: Linear, sizes: Sizes) -> Shape:
    return *sizes.of(step.x)[:-1], sizes.of(step.weight)[0]


def _matmul(step: MatMul, sizes: Sizes) -> Shape:
    a, b = sizes.of(step.a), sizes.of(step.b)
    if a[-1] != b[-2]:
        raise _mismatch(step.b, f"{b[-2]} rows", f"{a[-1]}, the columns of '{step.a}'")
    return *_broadcast(step.b, a[:-2], b[:-2]), a[-2], b[-1]


def _pool(step: Pool, sizes: Sizes) -> Shape:
    x = sizes.of(step.x)
    if step.kernel is None:
        if 0 in x[2:]:
            raise _mismatch(step.x, f"sizes {x[2:]}", "an element to pool")
        return x[0], x[1], 1, 1
    return x[0], x[1], *_windows(x, step.kernel, step, step.ceil_mode)


def _pairwise(step: Any, sizes: Sizes) -> Shape:
    return _broadcast(step.b, sizes.of(step.a), sizes.of(step.b))


def _broadcast(name: str, a: Shape, b: Shape) -> Shape:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for axis, (m, n) in enumerate(zip(a, b, strict=True)):
        if m != n and 1 not in (m, n):
            raise _mismatch(name, f"size {n} in dimension {axis - rank} from the end", f"{m} or 1")
    return tuple(m if n == 1 else n for m, n in zip(a, b, strict=True))


def _reduce(step: Reduce, sizes: Sizes) -> Shape:
    x = sizes.of(step.x)
    kept = ((axis not in step.axes, n) for axis, n in enumerate(x))
    return tuple(n if stays else 1 for stays, n in kept if stays or step.keepdims)


def _concat(step: Concat, sizes: Sizes) -> Shape:
    first = list(sizes.of(step.xs[0]))
    axis = step.axis % len(first)
    first[axis] = 0
    for name in step.xs:
        shape = sizes.of(name)
        if len(shape) != len(first):
            raise _mismatch(name, f"{len(shape)} dimensions", f"{len(first)}")
        for other, (size, want) in enumerate(zip(shape, first, strict=True)):
            if other != axis and size != want:
                raise _mismatch(name, f"size {size} in dimension {other}", f"{want}")
        first[axis] += shape[axis]
    return tuple(first)


def _reshape(step: Any, sizes: Sizes) -> Shape:
    """As the plan says; at most one dimension is what is left."""
    elements, shape = prod(sizes.of(step.x)), sizes.declared(step.y)
    known = prod(d for d in shape if d is not None)
    unknown = sum(d is None for d in shape)
    if unknown > 1 or (elements % known if unknown and known else elements != known):
        raise _mismatch(step.x, f"{elements} elements", f"as many as the shape {shape} of '{step.y}'")
    return tuple(elements // max(known, 1) if d is None else d for d in shape)


def _transpose(step: Transpose, sizes: Sizes) -> Shape:
    x = sizes.of(step.x)
    return tuple(x[axis] for axis in step.perm)


def _slice(step: Slice, sizes: Sizes) -> Shape:
    """As the plan says; to the end of an axis of which it does not say how much."""
    x, shape = sizes.of(step.x), sizes.declared(step.y)
    made = []
    for axis, (size, want, start, hop) in enumerate(zip(x, shape, step.starts, step.steps, strict=True)):
        count = rest(size, start, hop) if want is None else want
        last = start + hop * (count - 1)
        if count and not (0 <= start < size and 0 <= last < size):
            got = f"size {size} in dimension {axis}"
            raise _mismatch(step.x, got, f"one that holds {count} elements from {start} in steps of {hop}")
        made.append(count)
    return tuple(made)


def _gather(step: Gather, sizes: Sizes) -> Shape:
    return *sizes.of(step.index), *sizes.of(step.x)[1:]


def _pad(step: Pad, sizes: Sizes) -> Shape:
    return tuple(n + before + after for n, (before, after) in zip(sizes.of(step.x), step.pads, strict=True))


def _resize(step: Resize, sizes: Sizes) -> Shape:
    """As many as there are indices."""
    shape = list(sizes.of(step.x))
    for axis, indices in zip(step.axes, step.indices, strict=True):
        shape[axis] = sizes.of(indices)[0]
    return tuple(shape)


_RULES: dict[str, Callable[[Any, Sizes], Shape]] = {
    **dict.fromkeys(("quantize", "dequantize", "rescale", "reinterpret", "table"), _same),
    **dict.fromkeys(("function", "clip", "softmax", "layer_norm"), _same),
    **dict.fromkeys(("add", "binary"), _pairwise),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "linear": _linear,
    "matmul": _matmul,
    "pool": _pool,
    "reduce": _reduce,
    "concat": _concat,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "gather": _gather,
    "pad": _pad,
    "resize": _resize,
}
