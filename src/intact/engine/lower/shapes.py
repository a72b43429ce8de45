"""Sizes through the graph: what a graph computes of known sizes is a constant; names follow free ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps import Dim
from intact.errors import FileFormatError
from intact.graph import Constants, Inserter, Model, Namer, Node, Value, ops, refresh_shapes, set_shape

Size = Dim | None
"""A size, its name, or nothing where nobody knows it before a run."""
Sizes = list[Size]

_INTEGERS = ("INT64", "INT32")
_MOST_NUMBERS = 64  # in a vector of sizes that ConstantOfShape fills
_UNKNOWN = "unk__"  # how ONNX's inference calls a size that it cannot tell


def fold_sizes(model: Model) -> list[str]:
    """Before: ``Reshape(x, Concat(Shape(x)[0], Shape(x)[2] / 4))``.  After: constants where sizes are known.

    What stays free keeps its name through Reshape and Transpose, so that two tensors of one shape are seen
    to have one.

    Guards: integers of rank 0 or 1 alone, computed from sizes that the graph declares.
    """
    walk = _Walk(model)
    for node in list(model.graph):
        walk.visit(node)
    if not walk.folded:
        return []
    refresh_shapes(model)
    return [f"{walk.folded} results of arithmetic with sizes are constants"]


class _Walk:
    """One way through the graph.

    Attributes:
        folded: How many values became constants.
        numbers: Contents of integer tensors.
        shapes: Sizes of tensors, as far as they are known better than the graph says.
    """

    def __init__(self, model: Model) -> None:
        self.folded = 0
        self.numbers: dict[Value, Sizes] = {}
        self.shapes: dict[Value, Sizes] = {}
        self._model, self.constants, self._names = model, Constants(model.graph), Namer(model.graph)

    def visit(self, node: Node) -> None:
        """Tell what `node` makes, as far as that follows from what it reads."""
        if node.domain or not node.outputs:
            return
        value = node.outputs[0]
        if value in self.constants:
            self._measure_constant(value)
            return
        if (arithmetic := _NUMBERS.get(node.op_type)) is not None:
            self._compute(node, value, arithmetic)
        rule = _SHAPES.get(node.op_type)
        declared = _declared(value)
        if rule is None or (declared is not None and None not in declared):
            return
        found = rule(self, node)
        if found is None or (declared is not None and len(declared) != len(found)):
            return
        merged = [a if b is None else b for a, b in zip(found, declared or found, strict=True)]
        self.shapes[value] = merged
        set_shape(value, merged)

    def _measure_constant(self, value: Value) -> None:
        """Tell the sizes of a constant that nodes make, where ONNX's inference could not."""
        declared = _declared(value)
        if declared is not None and None not in declared:
            return
        array = self.constants(value)
        if array is not None and (declared is None or len(declared) == array.ndim):
            self.shapes[value] = list(array.shape)
            set_shape(value, list(array.shape))

    def _compute(self, node: Node, value: Value, rule: _Rule) -> None:
        inputs = [[] if node.op_type == "Shape" else self.content(v) for v in node.inputs]
        numbers = None if None in inputs else rule(self, node, [n for n in inputs if n is not None])
        if numbers is None:
            return
        self.numbers[value] = numbers
        known = all(isinstance(n, int) for n in numbers)
        if not known or value.dtype is None or value.dtype.name not in _INTEGERS or value.is_graph_output():
            return
        array = np.asarray(numbers, value.dtype.numpy())
        scalar = value.shape is not None and len(value.shape) == 0
        insert = Inserter(self._model.graph, node, self._names)
        made = insert.constant(f"{value.name}.size", array.reshape(()) if scalar else array)
        value.replace_all_uses_with(made)
        self.numbers[made] = numbers
        self.folded += 1

    def content(self, value: Value | None) -> Sizes | None:
        """What an integer vector holds; None where nothing is known."""
        if value is None or value in self.numbers:
            return None if value is None else self.numbers[value]
        if value not in self.constants or value.dtype is None or value.dtype.name not in _INTEGERS:
            return None
        array = self.constants(value)
        return [int(n) for n in array.reshape(-1)] if array is not None and array.ndim <= 1 else None

    def shape(self, value: Value | None) -> Sizes | None:
        """The sizes of a tensor; None where its rank is not known."""
        return None if value is None else self.shapes.get(value, _declared(value))


def _declared(value: Value) -> Sizes | None:
    if value.shape is None:
        return None
    sizes = [n if isinstance(n, int) else n.value for n in value.shape]
    return [None if isinstance(n, str) and n.startswith(_UNKNOWN) else n for n in sizes]


_Rule = Callable[["_Walk", Node, Sequence[Sizes]], Sizes | None]


def _shape_of(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    sizes = walk.shape(node.inputs[0])
    said = ops.Shape.of(node)
    return None if sizes is None else sizes[said.start : said.end]


def _gather(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    sizes, indices = inputs
    if ops.Gather.of(node).axis != 0 or not sizes:
        return None
    found = [sizes[i] for i in indices if isinstance(i, int) and -len(sizes) <= i < len(sizes)]
    return found if len(found) == len(indices) else None


def _cut(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    sizes, *numbers = inputs
    starts = [n[0] for n in numbers if len(n) == 1 and isinstance(n[0], int)]
    if len(starts) != len(numbers) or (len(starts) > 2 and starts[2] != 0):
        return None
    return sizes[slice(starts[0], starts[1], starts[3] if len(starts) > 3 else 1)]


def _same(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    return inputs[0]


def _joined(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    return [n for sizes in inputs for n in sizes]


def _arithmetic(compute: Callable[[int, int], int]) -> _Rule:
    def rule(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
        pairs = _pairs(*inputs)
        if pairs is None:
            return None
        return [compute(m, n) if isinstance(m, int) and isinstance(n, int) else None for m, n in pairs]

    return rule


def _pairs(a: Sizes, b: Sizes) -> list[tuple[Size, Size]] | None:
    """The numbers of two vectors, side by side; one that is alone stands beside each of the other's."""
    if not a or not b or (len(a) != len(b) and 1 not in (len(a), len(b))):
        return None
    count = max(len(a), len(b))
    return list(zip(a * count if len(a) == 1 else a, b * count if len(b) == 1 else b, strict=False))


def _filled(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    """A vector of one number, as long as the input says."""
    (count,) = inputs
    if len(count) != 1 or not isinstance(count[0], int) or not 0 <= count[0] <= _MOST_NUMBERS:
        return None
    value = ops.ConstantOfShape.fill(node)
    return [int(value)] * count[0] if value.is_integer() else None


def _equal(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    """1 where two numbers are equal, else 0: no size is negative, whatever it is called."""
    pairs = _pairs(*inputs)
    return None if pairs is None else [_is_equal(a, b) for a, b in pairs]


def _is_equal(a: Size, b: Size) -> int | None:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    known = a if isinstance(a, int) else b
    return 0 if isinstance(known, int) and known < 0 and None not in (a, b) else None


def _negated(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    return [-n if isinstance(n, int) else None for n in inputs[0]]


def _where(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    condition, a, b = inputs
    count = max(map(len, inputs))
    if any(len(sizes) not in (1, count) for sizes in inputs):
        return None
    rows = zip(*(sizes * count if len(sizes) == 1 else sizes for sizes in (condition, a, b)), strict=False)
    return [y if x == 0 else x_ if x == 1 else None for x, x_, y in rows]


def _divided(a: int, b: int) -> int:
    return int(a / b) if b else 0  # ONNX rounds towards zero


_NUMBERS: dict[str, _Rule] = {
    "Add": _arithmetic(lambda a, b: a + b), "Cast": _same, "Concat": _joined,
    "ConstantOfShape": _filled, "Div": _arithmetic(_divided), "Equal": _equal,
    "Gather": _gather, "Identity": _same, "Mul": _arithmetic(lambda a, b: a * b),
    "Neg": _negated, "Reshape": _same,
    "Shape": _shape_of, "Slice": _cut, "Squeeze": _same, "Sub": _arithmetic(lambda a, b: a - b),
    "Unsqueeze": _same, "Where": _where,
}  # fmt: skip
"""Operator -> what it makes of integers."""


def _like_first(walk: _Walk, node: Node) -> Sizes | None:
    return walk.shape(node.inputs[0])


def _broadcast(walk: _Walk, node: Node) -> Sizes | None:
    shapes = [walk.shape(value) for value in node.inputs]
    return None if None in shapes else _together([s for s in shapes if s is not None])


def _together(shapes: Sequence[Sizes]) -> Sizes:
    rank = max(map(len, shapes))
    padded: list[Sizes] = [[*[1] * (rank - len(s)), *s] for s in shapes]
    return [_one([s[axis] for s in padded]) for axis in range(rank)]


def _one(sizes: Sizes) -> Size:
    """The size that sizes broadcast to."""
    large = [n for n in sizes if n != 1]
    if not large:
        return 1
    known = [n for n in large if isinstance(n, int)]
    return known[0] if known else large[0] if len(set(large)) == 1 else None


def _expanded(walk: _Walk, node: Node) -> Sizes | None:
    sizes, target = walk.shape(node.inputs[0]), walk.content(node.inputs[1])
    return None if sizes is None or target is None else _together([sizes, target])


def _product(walk: _Walk, node: Node) -> Sizes | None:
    a, b = (walk.shape(value) for value in node.inputs[:2])
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    return [*_together([a[:-2], b[:-2]] if a[:-2] or b[:-2] else [[]]), a[-2], b[-1]]


def _turned(walk: _Walk, node: Node) -> Sizes | None:
    sizes = walk.shape(node.inputs[0])
    return None if sizes is None else [sizes[i] for i in ops.Transpose.of(node).order(len(sizes))]


def _reshaped(walk: _Walk, node: Node) -> Sizes | None:
    """The target; 0 takes the size that stands there, and -1 is what is left."""
    sizes, target = walk.shape(node.inputs[0]), walk.content(node.inputs[1])
    if sizes is None or target is None:
        return None
    copies = not ops.Reshape.of(node).allowzero
    found: Sizes = [sizes[i] if n == 0 and copies and i < len(sizes) else n for i, n in enumerate(target)]
    if -1 in found:
        found[found.index(-1)] = _left(sizes, [n for n in found if n != -1])
    return found


def _left(sizes: Sizes, taken: Sizes) -> Size:
    """What one size must be, so that `sizes` and it with `taken` have one product."""
    names = [n for n in sizes if not isinstance(n, int)]
    for name in (n for n in taken if not isinstance(n, int)):
        if name is None or name not in names:
            return None
        names.remove(name)
    whole = int(np.prod([n for n in sizes if isinstance(n, int)], dtype=object))
    part = int(np.prod([n for n in taken if isinstance(n, int)], dtype=object))
    if not names:
        return whole // part if part and whole % part == 0 else None
    return names[0] if len(names) == 1 and whole == part else None


def _convolved(walk: _Walk, node: Node) -> Sizes | None:
    """As many axes as the kernel has, however little is known of the input."""
    x, w = walk.shape(node.inputs[0]), walk.shape(node.inputs[1])
    if w is None or len(w) < 3 or (x is not None and len(x) != len(w)):
        return None
    x = x or [None] * len(w)
    return [x[0], w[0], *ops.Conv.of(node).positions(x[2:], w[2:])]


def _pooled(walk: _Walk, node: Node) -> Sizes | None:
    x = walk.shape(node.inputs[0])
    said = (ops.MaxPool if node.op_type == "MaxPool" else ops.AveragePool).of(node)
    if x is None or said.ceil_mode or len(x) != 2 + len(said.kernel_shape):
        return None
    return [*x[:2], *said.positions(x[2:], said.kernel_shape)]


def _resized(walk: _Walk, node: Node) -> Sizes | None:
    x = walk.shape(node.inputs[0])
    scales = walk.constants(node.inputs[2]) if len(node.inputs) > 2 else None
    if x is None or scales is None or scales.size != len(x):
        return None
    check_scales(node, scales)
    return [
        n if s == 1 else int(np.floor(n * s)) if isinstance(n, int) else None
        for n, s in zip(x, scales.astype(np.float64), strict=True)
    ]


def check_scales(node: Node, scales: NDArray) -> None:
    """
    Raises:
        FileFormatError: A factor of a Resize is not above 0, or larger than any tensor's size.
    """
    if not np.all((scales > 0) & (scales < _MOST)):  # false for NaN
        where, got = f"node '{node.name}' ({node.op_type}): scales", f"{scales}"[:80]
        raise FileFormatError(where, got, f"numbers above 0 and below {_MOST}", "export the model again")


_MOST = 2**31


_SHAPES: dict[str, Callable[[_Walk, Node], Sizes | None]] = {
    **dict.fromkeys(("Add", "Div", "Mul", "Pow", "Sub"), _broadcast),
    **dict.fromkeys(
        ("Cast", "Clip", "DequantizeLinear", "Erf", "Gelu", "HardSwish", "Identity", "LayerNormalization",
         "QuantizeLinear", "Relu", "Sigmoid", "Softmax", "Sqrt", "Tanh"), _like_first,
    ),
    "AveragePool": _pooled,
    "ConstantOfShape": lambda walk, node: walk.content(node.inputs[0]),
    "Conv": _convolved,
    "Expand": _expanded,
    "MatMul": _product,
    "MaxPool": _pooled,
    "Reshape": _reshaped,
    "Resize": _resized,
    "Transpose": _turned,
}  # fmt: skip
"""Operator -> the sizes of what it makes."""
