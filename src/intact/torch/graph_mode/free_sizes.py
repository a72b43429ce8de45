"""Sizes of a traced graph that another run may have otherwise: placement must not depend on them.

A trace has the sizes of its example everywhere. Those that weights bring are the same in every run; those of
the inputs, as the length of a sentence, are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from intact.graph import Constants, Model, Node, Value, ops, set_shape

_Fixed = tuple[bool, ...]
"""For each axis of a value, whether weights bring its size."""


def open_free_sizes(model: Model) -> Model:
    """A clone of a traced model that leaves open what the inputs' sizes decide.

    Before: ``q [2, 4, 8, 16]``, of 2 sentences of 8 words.  After: ``q [?, 4, ?, 16]``.
    """
    found = model.clone()
    constants, fixed = Constants(found.graph), dict[Value, _Fixed]()
    for value in (v for node in found.graph for v in node.inputs if v is not None):
        if value in constants:
            fixed[value] = (True,) * len(_sizes(value))
    for node in found.graph:
        for value in node.outputs:
            if value not in fixed:
                fixed[value] = _of_output(node, value, fixed)
    for value in (*found.graph.inputs, *fixed):
        known = fixed.get(value, ())
        if value not in constants and value.shape is not None and None not in (sizes := _sizes(value)):
            known = known if len(known) == len(sizes) else (False,) * len(sizes)
            set_shape(value, [n if stays else None for n, stays in zip(sizes, known, strict=True)])
    return found


def _of_output(node: Node, output: Value, fixed: dict[Value, _Fixed]) -> _Fixed:
    sizes = _sizes(output)
    read = [node.inputs[i] for i in ops.data_inputs(node) if i < len(node.inputs)]
    data = [(_sizes(value), fixed.get(value, (False,) * len(_sizes(value)))) for value in read if value]
    if node.op_type in ("MatMul", "Gemm") and len(data) == 2:
        return _of_product(node, sizes, data)
    if ops.is_kind(node, "convolution"):
        channels = 1 if len(sizes) > 1 else 0
        return tuple(axis == channels for axis in range(len(sizes)))
    if isinstance(said := ops.read(node), ops.Transpose) and len(data[0][1]) == len(sizes):
        return tuple(data[0][1][axis] for axis in said.order(len(sizes)))
    if isinstance(said, ops.Reshape | ops.Flatten | ops.Squeeze | ops.Unsqueeze):
        return tuple(_regrouped(data[0][0], data[0][1], sizes))
    if isinstance(said, ops.Split | ops.Slice | ops.Concat) and all(len(k) == len(sizes) for _, k in data):
        return tuple(all(known[axis] for _, known in data) for axis in range(len(sizes)))
    weights = [value for value in node.inputs if value is not None] if ops.is_kind(node, "recurrent") else []
    data += [(_sizes(value), fixed.get(value, (False,) * len(_sizes(value)))) for value in weights]
    return tuple(_aligned(sizes, axis, data) for axis in range(-len(sizes), 0))


_Data = Sequence[tuple[list[int | None], _Fixed]]


def _of_product(node: Node, sizes: list[int | None], data: _Data) -> _Fixed:
    (_, left), (_, right) = data
    said = ops.read(node)
    if len(left) < 2 or len(right) < 2:
        return (False,) * len(sizes)
    rows = left[-1] if isinstance(said, ops.Gemm) and said.transA else left[-2]
    columns = right[-2] if isinstance(said, ops.Gemm) and said.transB else right[-1]
    batch = [_aligned(sizes, axis, data) for axis in range(-len(sizes), -2)]
    return (*batch, rows, columns)


def _aligned(sizes: list[int | None], axis: int, data: _Data) -> bool:
    """Whether an operand that has the same size there, as broadcasting aligns them, has it fixed."""
    return any(-axis <= len(theirs) and theirs[axis] == sizes[axis] and known[axis] for theirs, known in data)


def _regrouped(before: list[int | None], known: _Fixed, after: list[int | None]) -> Iterator[bool]:
    """For each axis behind a Reshape whether its size is fixed: where all axes are that it was made of."""
    first, axis = 0, 0
    while axis < len(after):
        last, end = min(first + 1, len(before)), axis + 1
        while (a := _product(before[first:last])) != (b := _product(after[axis:end])):
            if a < b and last < len(before):
                last += 1
            elif end < len(after):
                end += 1
            else:
                last, end = len(before), len(after)
                break
        yield from [all(known[first:last]) and first < last] * (end - axis)
        first, axis = last, end


def _product(sizes: Sequence[int | None]) -> int:
    return prod(size or 0 for size in sizes)


def _sizes(value: Value) -> list[int | None]:
    return [size if isinstance(size, int) else None for size in value.shape or ()]
