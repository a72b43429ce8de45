"""Arithmetic with sizes: what a graph computes of sizes that are known is a constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from intact.engine.lower.attributes import integer
from intact.graph import Constants, Inserter, Model, Namer, Node, Value, refresh_shapes

_Sizes = list[int | None]
"""Numbers of an integer vector, or one number; None for those that nobody knows before a run."""

_INTEGERS = ("INT64", "INT32")


def fold_sizes(model: Model) -> list[str]:
    """Before: ``Reshape(x, Concat(Shape(x)[0], Shape(x)[2] / 4))``.  After: constants where sizes are known.

    Guards: integers of rank 0 or 1 alone, computed from sizes that the graph declares.
    """
    constants, names = Constants(model.graph), Namer(model.graph)
    known: dict[Value, _Sizes] = {}
    folded = 0
    for node in list(model.graph):
        rule = _RULES.get(node.op_type) if not node.domain else None
        value = node.outputs[0] if node.outputs else None
        if rule is None or value is None or value in constants:
            continue
        inputs = [] if node.op_type == "Shape" else [_operand(v, known, constants) for v in node.inputs]
        sizes = None if None in inputs else rule(node, [sizes for sizes in inputs if sizes is not None])
        if sizes is None:
            continue
        known[value] = sizes
        if None not in sizes and value.dtype is not None and value.dtype.name in _INTEGERS:
            array = np.asarray(sizes, value.dtype.numpy())
            rank = 1 if value.shape is None else len(value.shape)
            insert = Inserter(model.graph, node, names)
            made = insert.constant(f"{value.name}.size", array if rank else array.reshape(()))
            if not value.is_graph_output():
                value.replace_all_uses_with(made)
                folded += 1
    if not folded:
        return []
    refresh_shapes(model)
    return [f"{folded} results of arithmetic with sizes are constants"]


def _operand(value: Value | None, known: dict[Value, _Sizes], constants: Constants) -> _Sizes | None:
    if value is None:
        return None
    if value in known:
        return known[value]
    if value in constants and value.dtype is not None and value.dtype.name in _INTEGERS:
        array = constants(value)
        return [int(n) for n in array.reshape(-1)] if array is not None and array.ndim <= 1 else None
    return None


def _shape(node: Node, inputs: Sequence[_Sizes]) -> _Sizes | None:
    value = node.inputs[0]
    if value is None or value.shape is None:
        return None
    sizes: _Sizes = [n if isinstance(n, int) else None for n in value.shape]
    end = integer(node, "end", len(sizes))
    return sizes[integer(node, "start", 0) : end]


def _gather(node: Node, inputs: Sequence[_Sizes]) -> _Sizes | None:
    sizes, indices = inputs
    if None in indices or integer(node, "axis", 0) != 0 or not sizes:
        return None
    return [sizes[i] for i in indices if i is not None and -len(sizes) <= i < len(sizes)]


def _slice(node: Node, inputs: Sequence[_Sizes]) -> _Sizes | None:
    sizes, starts, ends, *rest = inputs
    numbers = [starts, ends, *rest]
    if any(len(n) != 1 or n[0] is None for n in numbers) or (rest and rest[0] != [0]):
        return None
    step = rest[1][0] if len(rest) > 1 else 1
    return sizes[slice(starts[0], ends[0], step)]


def _same(node: Node, inputs: Sequence[_Sizes]) -> _Sizes | None:
    return inputs[0] or None


def _concat(node: Node, inputs: Sequence[_Sizes]) -> _Sizes | None:
    return [n for sizes in inputs for n in sizes]


def _arithmetic(compute: Callable[[int, int], int]) -> Callable[[Node, Sequence[_Sizes]], _Sizes | None]:
    def rule(node: Node, inputs: Sequence[_Sizes]) -> _Sizes | None:
        a, b = inputs
        if not a or not b or (len(a) != len(b) and 1 not in (len(a), len(b))):
            return None
        count = max(len(a), len(b))
        pairs = zip(a * count if len(a) == 1 else a, b * count if len(b) == 1 else b, strict=False)
        return [None if m is None or n is None else compute(m, n) for m, n in pairs]

    return rule


def _divided(a: int, b: int) -> int:
    return int(a / b) if b else 0  # ONNX rounds towards zero


_RULES: dict[str, Callable[[Node, Sequence[_Sizes]], _Sizes | None]] = {
    "Add": _arithmetic(lambda a, b: a + b), "Cast": _same, "Concat": _concat, "Div": _arithmetic(_divided),
    "Gather": _gather, "Identity": _same, "Mul": _arithmetic(lambda a, b: a * b), "Reshape": _same,
    "Shape": _shape, "Slice": _slice, "Squeeze": _same, "Sub": _arithmetic(lambda a, b: a - b),
    "Unsqueeze": _same,
}  # fmt: skip
