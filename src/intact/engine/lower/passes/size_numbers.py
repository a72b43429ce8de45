"""Arithmetic with the numbers of integer vectors, whose elements may be sizes without a number yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from intact.engine.lower.passes.size_walk import Size, Sizes, SizeWalk, compute_size, pair_sizes
from intact.engine.steps.base.dims import is_never_negative
from intact.graph import Node, ops

_MOST_NUMBERS = 64  # in a vector of sizes that ConstantOfShape fills

NumberRule = Callable[[SizeWalk, Node, Sequence[Sizes]], Sizes | None]


def _shape_of(walk: SizeWalk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    sizes = walk.shape(node.inputs[0])
    form = ops.Shape.of(node)
    return None if sizes is None else sizes[form.start : form.end]


def _gather(walk: SizeWalk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    sizes, indices = inputs
    if ops.Gather.of(node).axis != 0 or not sizes:
        return None
    gathered = [sizes[i] for i in indices if isinstance(i, int) and -len(sizes) <= i < len(sizes)]
    return gathered if len(gathered) == len(indices) else None


def _slice_numbers(walk: SizeWalk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    sizes, *numbers = inputs
    starts = [n[0] for n in numbers if len(n) == 1 and isinstance(n[0], int)]
    if len(starts) != len(numbers) or (len(starts) > 2 and starts[2] != 0):
        return None
    return sizes[slice(starts[0], starts[1], starts[3] if len(starts) > 3 else 1)]


def _same(walk: SizeWalk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    return inputs[0]


def _concat_numbers(walk: SizeWalk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    return [n for sizes in inputs for n in sizes]


def _arithmetic(function: str) -> NumberRule:
    def rule(walk: SizeWalk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
        pairs = pair_sizes(*inputs)
        return None if pairs is None else [compute_size(function, m, n) for m, n in pairs]

    return rule


def _fill_numbers(walk: SizeWalk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    """Fill a vector with one number, to the length that the input gives."""
    (count,) = inputs
    if len(count) != 1 or not isinstance(count[0], int) or not 0 <= count[0] <= _MOST_NUMBERS:
        return None
    value = float(ops.ConstantOfShape.fill(node))
    return [int(value)] * count[0] if value.is_integer() else None


def _equal(walk: SizeWalk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    """Compare two numbers: 1 where they are equal, else 0. No size is negative, whatever its name."""
    pairs = pair_sizes(*inputs)
    return None if pairs is None else [_is_equal(a, b) for a, b in pairs]


def _is_equal(a: Size, b: Size) -> int | None:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    size = a if isinstance(a, int) else b
    other = b if size is a else a
    return (
        0 if isinstance(size, int) and size < 0 and other is not None and is_never_negative(other) else None
    )


def _negate(walk: SizeWalk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    return [compute_size("*", n, -1) for n in inputs[0]]


def _where(walk: SizeWalk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    condition, a, b = inputs
    count = max(map(len, inputs))
    if any(len(sizes) not in (1, count) for sizes in inputs):
        return None
    rows = zip(*(sizes * count if len(sizes) == 1 else sizes for sizes in (condition, a, b)), strict=False)
    return [y if x == 0 else x_ if x == 1 else None for x, x_, y in rows]


NUMBERS: dict[str, NumberRule] = {
    "Add": _arithmetic("+"), "Cast": _same, "Concat": _concat_numbers,
    "ConstantOfShape": _fill_numbers, "Div": _arithmetic("/"), "Equal": _equal,
    "Gather": _gather, "Identity": _same, "Max": _arithmetic("max"), "Min": _arithmetic("min"),
    "Mul": _arithmetic("*"), "Neg": _negate, "Reshape": _same, "Shape": _shape_of, "Slice": _slice_numbers,
    "Squeeze": _same, "Sub": _arithmetic("-"), "Unsqueeze": _same, "Where": _where,
}  # fmt: skip
"""Operator -> what it makes of integers."""
