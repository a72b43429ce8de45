"""Arithmetic with the numbers of small integer tensors, whose elements may be sizes without a number yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from intact.engine.lower.passes.quotients import (
    Number,
    Quotient,
    compute_number,
    divide,
    round_down,
    round_up,
)
from intact.engine.lower.passes.size_walk import Numbers, Size, SizeWalk, compute_size, multiply_sizes
from intact.engine.steps.base.dims import is_never_negative
from intact.graph import Node, ops

WIDE_INTEGERS = ("INT64", "INT32")
_FLOATS = ("FLOAT", "DOUBLE")
_MOST_NUMBERS = 64  # that ConstantOfShape and Expand fill

NumberRule = Callable[[SizeWalk, Node, Sequence[Numbers]], Numbers | None]


def _numbers(sizes: Sequence[Size]) -> Numbers:
    result = np.empty(len(sizes), object)
    result[:] = sizes
    return result


def _each(function: Callable[..., Number], *operands: Numbers) -> Numbers | None:
    """Apply a function to elements that broadcast; None where they do not."""
    try:
        shape = np.broadcast_shapes(*(x.shape for x in operands))
    except ValueError:
        return None
    result = np.empty(shape, object)
    if result.size:
        result[...] = np.frompyfunc(function, len(operands), 1)(*operands)
    return result


def _whole(numbers: Numbers) -> list[int] | None:
    """Return numbers that are all known."""
    flat = [n for n in numbers.reshape(-1) if isinstance(n, int)]
    return flat if len(flat) == numbers.size else None


def _shape_of(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    sizes, form = walk.shape(node.inputs[0]), ops.Shape.of(node)
    return None if sizes is None else _numbers(sizes[form.start : form.end])


def _count(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    sizes = walk.shape(node.inputs[0])
    return None if sizes is None else _product(sizes)


def _product(sizes: Sequence[Size]) -> Numbers:
    result = np.empty((), object)
    result[()] = multiply_sizes(sizes)
    return result


def _product_of_all(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    if len(inputs) != 1 or ops.ReduceProd.of(node).axes is not None:
        return None
    result = _product(list(inputs[0].reshape(-1)))
    return result.reshape((1,) * inputs[0].ndim) if ops.ReduceProd.of(node).keepdims else result


def _gather(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    x, index = inputs
    places, axis = _whole(index), ops.Gather.of(node).axis
    if places is None or not -x.ndim <= axis < x.ndim:
        return None
    size = x.shape[axis]
    if not all(-size <= place < size for place in places):
        return None
    return np.asarray(np.take(x, np.array(places, np.int64).reshape(index.shape), axis), object)


def _slice(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    x, *rest = inputs
    starts, ends, *more = [_whole(numbers) for numbers in rest]
    if starts is None or ends is None or None in more:
        return None
    axes = more[0] if more and more[0] is not None else list(range(len(starts)))
    hops = more[1] if len(more) > 1 and more[1] is not None else [1] * len(starts)
    cuts = [slice(None)] * x.ndim
    for start, end, axis, hop in zip(starts, ends, axes, hops, strict=False):
        if not -x.ndim <= axis < x.ndim or hop == 0:
            return None
        indices = range(*_ends(start, end, hop, x.shape[axis]))
        cuts[axis] = slice(indices.start, None if indices.stop < 0 else indices.stop, hop)
        if not indices:
            cuts[axis] = slice(0, 0)
    return x[tuple(cuts)]


def _ends(start: int, end: int, hop: int, size: int) -> tuple[int, int, int]:
    """Clamp the ends of a Slice as ONNX says; those below an axis of -hop stay there."""
    low, high = (0, size) if hop > 0 else (-1, size - 1)
    first = start + size if start < 0 else start
    last = end + size if end < 0 else end
    return min(max(first, low), high), min(max(last, low), high), hop


def _same(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    return inputs[0]


def _reshape(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    x, target = inputs[0], _whole(inputs[1])
    if target is None:
        return None
    copies = not ops.Reshape.of(node).allowzero
    shape = [x.shape[i] if n == 0 and copies and i < x.ndim else n for i, n in enumerate(target)]
    try:
        return x.reshape(shape)
    except ValueError:
        return None


def _squeeze(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    axes = _whole(inputs[1]) if len(inputs) > 1 else None
    try:
        return np.squeeze(inputs[0], None if axes is None else tuple(axes))
    except ValueError:  # NumPy's AxisError is one
        return None


def _unsqueeze(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    axes = _whole(inputs[1]) if len(inputs) > 1 else None
    try:
        return None if axes is None else np.expand_dims(inputs[0], tuple(axes))
    except ValueError:
        return None


def _transpose(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    return inputs[0].transpose(ops.Transpose.of(node).order(inputs[0].ndim))


def _concat(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    try:
        return np.concatenate(inputs, ops.Concat.of(node).axis)
    except ValueError:
        return None


def _arithmetic(function: str) -> NumberRule:
    def rule(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
        result: Numbers | None = inputs[0]
        for operand in inputs[1:]:
            result = None if result is None else _each(partial(compute_number, function), result, operand)
        return result

    return rule


def _quotient(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    type_name = _type_of(node)
    if type_name in _FLOATS:
        return _each(divide, *inputs)
    return _each(partial(compute_size, "/"), *inputs) if type_name in WIDE_INTEGERS else None


def _cast(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    """Cast to a type that holds every size; a cast to others changes some."""
    type_name = _type_of(node)
    if type_name in _FLOATS:
        return inputs[0]
    if type_name in WIDE_INTEGERS:
        return _each(round_down, inputs[0])
    return _each(_is_nonzero, inputs[0]) if type_name == "BOOL" else None


def _is_nonzero(number: Number) -> int | None:
    return int(number != 0) if isinstance(number, int) else None


def _type_of(node: Node) -> str | None:
    return None if node.outputs[0].dtype is None else node.outputs[0].dtype.name


def _rounding(function: Callable[[Number], Size]) -> NumberRule:
    return lambda walk, node, inputs: _each(function, inputs[0])


def _remainder(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    return None if ops.Mod.of(node).fmod else _each(partial(compute_size, "mod"), *inputs)


def _fill(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    """Fill a tensor with one number."""
    value = float(ops.ConstantOfShape.fill(node))
    return _fill_shape(np.full((), int(value), object), inputs[0]) if value.is_integer() else None


def _expand(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    return _fill_shape(*inputs)


def _fill_shape(x: Numbers, target: Numbers) -> Numbers | None:
    shape = _whole(target)
    if shape is None or any(n < 0 for n in shape) or int(np.prod(shape, dtype=object)) > _MOST_NUMBERS:
        return None
    try:
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))
    except ValueError:
        return None


def _equal(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    """Compare numbers: 1 where they are equal, else 0. No size is negative, whatever its name."""
    return _each(_is_equal, *inputs)


def _is_equal(a: Number, b: Number) -> int | None:
    if isinstance(a, Quotient) or isinstance(b, Quotient):
        return None
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    size = a if isinstance(a, int) else b
    other = b if size is a else a
    return (
        0 if isinstance(size, int) and size < 0 and other is not None and is_never_negative(other) else None
    )


def _negate(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    return _each(lambda n: compute_number("*", n, -1), inputs[0])


def _where(walk: SizeWalk, node: Node, inputs: Sequence[Numbers]) -> Numbers | None:
    return _each(lambda chosen, a, b: b if chosen == 0 else a if chosen == 1 else None, *inputs)


NUMBERS: dict[str, NumberRule] = {
    "Add": _arithmetic("+"), "Cast": _cast, "Ceil": _rounding(round_up), "Concat": _concat,
    "ConstantOfShape": _fill, "Div": _quotient, "Equal": _equal, "Expand": _expand,
    "Floor": _rounding(round_down), "Gather": _gather, "Identity": _same, "Max": _arithmetic("max"),
    "Min": _arithmetic("min"), "Mod": _remainder, "Mul": _arithmetic("*"), "Neg": _negate,
    "ReduceProd": _product_of_all, "Reshape": _reshape, "Shape": _shape_of, "Size": _count, "Slice": _slice,
    "Squeeze": _squeeze, "Sub": _arithmetic("-"), "Transpose": _transpose, "Unsqueeze": _unsqueeze,
    "Where": _where,
}  # fmt: skip
"""Operator -> what it makes of numbers."""
