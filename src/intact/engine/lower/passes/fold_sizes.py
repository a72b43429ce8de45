"""Fold shape arithmetic into constants, and propagate names of free dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps import Dim
from intact.engine.steps.base.dims import expression, is_never_negative
from intact.errors import FileFormatError
from intact.graph import (
    DOUBTFUL,
    UNKNOWN_SIZE,
    Model,
    Node,
    Note,
    Scene,
    Value,
    forget_doubtful_names,
    layer_sizes,
    ops,
    refresh_shapes,
    set_shape,
)

Size = Dim | None
"""A size, its name, or nothing where nobody knows it before a run."""
Sizes = list[Size]

_INTEGERS = ("INT64", "INT32")
_MOST_NUMBERS = 64  # in a vector of sizes that ConstantOfShape fills
_MOST_WALKS = 4  # through a graph: each tells sizes behind operators that ONNX's inference alone knows


def fold_sizes(model: Model) -> list[Note]:
    """Replace shape arithmetic by constants where the sizes are known.

    Before: ``Reshape(x, Concat(Shape(x)[0], Shape(x)[2] / 4))``.  After: constants where sizes are known.

    What stays free keeps its name through Reshape and Transpose, so that two tensors of one shape are seen
    to have one.

    Guards: integers of rank 0 or 1 alone, computed from sizes that the graph declares.
    """
    folded = 0
    forget_doubtful_names(model)
    for _ in range(_MOST_WALKS):
        walk = _Walk(model)
        for node in list(model.graph):
            walk.visit(node)
        folded += walk.folded
        if not walk.folded and not walk.resized:
            break
        refresh_shapes(model)  # what follows from what is known now is seen by the next walk
        if not walk.resized:
            break
    return [Note("", f"{folded} results of arithmetic with sizes are constants")] if folded else []


class _Walk:
    """One way through the graph.

    Attributes:
        folded: How many values became constants.
        resized: How many tensors got sizes that the graph did not say.
        numbers: Contents of integer tensors.
        shapes: Sizes of tensors, as far as they are known better than the graph says.
    """

    def __init__(self, model: Model) -> None:
        self.folded = self.resized = 0
        self.numbers: dict[Value, Sizes] = {}
        self.shapes: dict[Value, Sizes] = {}
        self._scene = Scene(model.graph)
        self.constants = self._scene.constants
        self._free = {str(n) for value in model.graph.inputs for n in _sizes(value) or ()}

    def visit(self, node: Node) -> None:
        """Derive the sizes and values of a node's outputs from those of its inputs."""
        if not node.outputs:
            return
        value = node.outputs[0]
        if value in self.constants and not node.domain:
            self._measure_constant(value)
            return
        if not node.domain and (arithmetic := _NUMBERS.get(node.op_type)) is not None:
            self._compute(node, value, arithmetic)
        declared = self._sizes_in_graph(value)
        if declared is not None and None not in declared:
            return
        rule = None if node.domain else _SHAPES.get(node.op_type)
        sizes = layer_sizes(node, self.shape) if rule is None else rule(self, node)
        if sizes is None or (declared is not None and len(declared) != len(sizes)):
            return
        merged = [a if b is None else b for a, b in zip(sizes, declared or sizes, strict=True)]
        self.shapes[value] = merged
        if merged != declared:
            self.resized += merged != [None] * len(merged) or declared is None
            set_shape(value, merged)

    def _measure_constant(self, value: Value) -> None:
        """Infer the sizes of a constant from its nodes, where ONNX's inference could not."""
        declared = self._sizes_in_graph(value)
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
        fixed = all(isinstance(n, int) for n in numbers)
        if not fixed or value.dtype is None or value.dtype.name not in _INTEGERS or value.is_graph_output():
            return
        array = np.asarray(numbers, value.dtype.numpy())
        scalar = value.shape is not None and len(value.shape) == 0
        insert = self._scene.inserter(node)
        constant = insert.constant(f"{value.name}.size", array.reshape(()) if scalar else array)
        value.replace_all_uses_with(constant)
        self.numbers[constant] = numbers
        self.folded += 1

    def content(self, value: Value | None) -> Sizes | None:
        """Return the elements of an integer vector; None where they are not known."""
        if value is None or value in self.numbers:
            return None if value is None else self.numbers[value]
        if value not in self.constants or value.dtype is None or value.dtype.name not in _INTEGERS:
            return None
        array = self.constants(value)
        return [int(n) for n in array.reshape(-1)] if array is not None and array.ndim <= 1 else None

    def shape(self, value: Value | None) -> Sizes | None:
        """Return the sizes of a tensor; None where its rank is not known."""
        return None if value is None else self.shapes.get(value, self._sizes_in_graph(value))

    def _sizes_in_graph(self, value: Value) -> Sizes | None:
        sizes = _sizes(value)
        if sizes is None:
            return None
        if DOUBTFUL in value.meta:
            return [n if isinstance(n, int) else None for n in sizes]
        return [None if str(n).startswith(UNKNOWN_SIZE) and n not in self._free else n for n in sizes]


def _sizes(value: Value) -> Sizes | None:
    if value.shape is None:
        return None
    return [n if isinstance(n, int) else n.value for n in value.shape]


_Rule = Callable[["_Walk", Node, Sequence[Sizes]], Sizes | None]


def _shape_of(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    sizes = walk.shape(node.inputs[0])
    form = ops.Shape.of(node)
    return None if sizes is None else sizes[form.start : form.end]


def _gather(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    sizes, indices = inputs
    if ops.Gather.of(node).axis != 0 or not sizes:
        return None
    gathered = [sizes[i] for i in indices if isinstance(i, int) and -len(sizes) <= i < len(sizes)]
    return gathered if len(gathered) == len(indices) else None


def _slice_numbers(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    sizes, *numbers = inputs
    starts = [n[0] for n in numbers if len(n) == 1 and isinstance(n[0], int)]
    if len(starts) != len(numbers) or (len(starts) > 2 and starts[2] != 0):
        return None
    return sizes[slice(starts[0], starts[1], starts[3] if len(starts) > 3 else 1)]


def _same(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    return inputs[0]


def _concat_numbers(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    return [n for sizes in inputs for n in sizes]


def _arithmetic(function: str) -> _Rule:
    def rule(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
        pairs = _pairs(*inputs)
        return None if pairs is None else [compute_size(function, m, n) for m, n in pairs]

    return rule


def compute_size(function: str, a: Size, b: Size) -> Size:
    """Return an `expression` of sizes, or None where one is not known."""
    return None if a is None or b is None else expression(function, a, b)


def _pairs(a: Sizes, b: Sizes) -> list[tuple[Size, Size]] | None:
    """Pair the numbers of two vectors; a vector of one number is broadcast."""
    if not a or not b or (len(a) != len(b) and 1 not in (len(a), len(b))):
        return None
    count = max(len(a), len(b))
    return list(zip(a * count if len(a) == 1 else a, b * count if len(b) == 1 else b, strict=False))


def _fill_numbers(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    """Fill a vector with one number, to the length that the input gives."""
    (count,) = inputs
    if len(count) != 1 or not isinstance(count[0], int) or not 0 <= count[0] <= _MOST_NUMBERS:
        return None
    value = ops.ConstantOfShape.fill(node)
    return [int(value)] * count[0] if value.is_integer() else None


def _equal(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    """Compare two numbers: 1 where they are equal, else 0. No size is negative, whatever its name."""
    pairs = _pairs(*inputs)
    return None if pairs is None else [_is_equal(a, b) for a, b in pairs]


def _is_equal(a: Size, b: Size) -> int | None:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    size = a if isinstance(a, int) else b
    other = b if size is a else a
    return (
        0 if isinstance(size, int) and size < 0 and other is not None and is_never_negative(other) else None
    )


def _negate(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    return [compute_size("*", n, -1) for n in inputs[0]]


def _where(walk: _Walk, node: Node, inputs: Sequence[Sizes]) -> Sizes | None:
    condition, a, b = inputs
    count = max(map(len, inputs))
    if any(len(sizes) not in (1, count) for sizes in inputs):
        return None
    rows = zip(*(sizes * count if len(sizes) == 1 else sizes for sizes in (condition, a, b)), strict=False)
    return [y if x == 0 else x_ if x == 1 else None for x, x_, y in rows]


_NUMBERS: dict[str, _Rule] = {
    "Add": _arithmetic("+"), "Cast": _same, "Concat": _concat_numbers,
    "ConstantOfShape": _fill_numbers, "Div": _arithmetic("/"), "Equal": _equal,
    "Gather": _gather, "Identity": _same, "Max": _arithmetic("max"), "Min": _arithmetic("min"),
    "Mul": _arithmetic("*"), "Neg": _negate, "Reshape": _same, "Shape": _shape_of, "Slice": _slice_numbers,
    "Squeeze": _same, "Sub": _arithmetic("-"), "Unsqueeze": _same, "Where": _where,
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
    """Return the size that sizes broadcast to."""
    large = [n for n in sizes if n != 1]
    if not large:
        return 1
    numbers = [n for n in large if isinstance(n, int)]
    if numbers:
        return numbers[0]
    size, *rest = dict.fromkeys(large)
    for other in rest:
        size = compute_size("broadcast", size, other)
    return size


def _expand_shape(walk: _Walk, node: Node) -> Sizes | None:
    sizes, target = walk.shape(node.inputs[0]), walk.content(node.inputs[1])
    return None if sizes is None or target is None else _together([sizes, target])


def _product(walk: _Walk, node: Node) -> Sizes | None:
    a, b = (walk.shape(value) for value in node.inputs[:2])
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    return [*_together([a[:-2], b[:-2]] if a[:-2] or b[:-2] else [[]]), a[-2], b[-1]]


def _transpose_shape(walk: _Walk, node: Node) -> Sizes | None:
    sizes = walk.shape(node.inputs[0])
    return None if sizes is None else [sizes[i] for i in ops.Transpose.of(node).order(len(sizes))]


def _reshape_shape(walk: _Walk, node: Node) -> Sizes | None:
    """Return the target shape of a Reshape, in which 0 copies a size and -1 is inferred."""
    sizes, target = walk.shape(node.inputs[0]), walk.content(node.inputs[1])
    if sizes is None or target is None:
        return None
    copies = not ops.Reshape.of(node).allowzero
    new: Sizes = [sizes[i] if n == 0 and copies and i < len(sizes) else n for i, n in enumerate(target)]
    if -1 in new:
        new[new.index(-1)] = _missing_size(sizes, [n for n in new if n != -1])
    return new


def _missing_size(sizes: Sizes, targets: Sizes) -> Size:
    """Return the size that makes the product of `sizes` equal that of `targets`."""
    names = [n for n in sizes if not isinstance(n, int)]
    for name in (n for n in targets if not isinstance(n, int)):
        if name is None or name not in names:
            return None
        names.remove(name)
    whole = int(np.prod([n for n in sizes if isinstance(n, int)], dtype=object))
    part = int(np.prod([n for n in targets if isinstance(n, int)], dtype=object))
    if not part or None in names or (not names and whole % part):
        return None
    if whole % part == 0:
        whole, part = whole // part, 1
    left: Size = whole
    for name in names:
        left = compute_size("*", left, name)
    return compute_size("/", left, part)


def _resize_shape(walk: _Walk, node: Node) -> Sizes | None:
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
    """Raise FileFormatError for scales of a Resize that are not above 0, or larger than any tensor."""
    if not np.all((scales > 0) & (scales < _MOST)):  # false for NaN
        where, got = f"node '{node.name}' ({node.op_type}): scales", f"{scales}"[:80]
        raise FileFormatError(where, got, f"numbers above 0 and below {_MOST}", "export the model again")


_MOST = 2**31


def _gather_shape(walk: _Walk, node: Node) -> Sizes | None:
    """Return the sizes of the indices in place of the axis that they choose from."""
    sizes, index = walk.shape(node.inputs[0]), walk.shape(node.inputs[1])
    if not sizes or index is None:
        return None
    axis = ops.Gather.of(node).axis % len(sizes)
    return [*sizes[:axis], *index, *sizes[axis + 1 :]]


def _slice_shape(walk: _Walk, node: Node) -> Sizes | None:
    """Return the elements from a constant start up to an end that may be computed."""
    sizes = walk.shape(node.inputs[0])
    starts, ends = walk.content(node.inputs[1]), walk.content(node.inputs[2])
    if sizes is None or starts is None or ends is None:
        return None
    axes = (
        walk.content(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] else list(range(len(starts)))
    )
    steps = walk.content(node.inputs[4]) if len(node.inputs) > 4 else [1] * len(starts)
    if axes is None or steps is None:
        return None
    output_sizes = list(sizes)
    for start, end, axis, hop in zip(starts, ends, axes, steps, strict=True):
        if not isinstance(axis, int):
            return None
        output_sizes[axis] = _slice_length(sizes[axis], start, end) if hop == 1 else None
    return output_sizes


def _slice_length(size: Size, start: Size, end: Size) -> Size:
    """Return how many elements there are from `start` to `end` of an axis."""
    if size is None or not isinstance(start, int) or end is None:
        return None
    if isinstance(end, int) and end >= _MOST - 1:
        stop: Size = size
    elif isinstance(end, int) and end < 0:
        stop = compute_size("max", compute_size("+", size, end), 0)
    elif is_never_negative(end):
        stop = compute_size("min", size, end)
    else:
        return None
    if start < 0:
        first = compute_size("max", compute_size("+", size, start), 0)
        return compute_size("max", compute_size("-", stop, first), 0)
    return compute_size("max", compute_size("-", stop, start), 0) if start else stop


def _squeeze_shape(walk: _Walk, node: Node) -> Sizes | None:
    sizes = walk.shape(node.inputs[0])
    axes = walk.content(node.inputs[1]) if len(node.inputs) > 1 else None
    if sizes is None or axes is None or not all(isinstance(axis, int) for axis in axes):
        return None
    gone = {axis % len(sizes) for axis in axes if isinstance(axis, int)}
    return [size for axis, size in enumerate(sizes) if axis not in gone]


def _unsqueeze_shape(walk: _Walk, node: Node) -> Sizes | None:
    sizes, axes = walk.shape(node.inputs[0]), walk.content(node.inputs[1])
    if sizes is None or axes is None or not all(isinstance(axis, int) for axis in axes):
        return None
    rank, rest = len(sizes) + len(axes), iter(sizes)
    new = {axis % rank for axis in axes if isinstance(axis, int)}
    return [1 if axis in new else next(rest) for axis in range(rank)]


def _flatten_shape(walk: _Walk, node: Node) -> Sizes | None:
    sizes = walk.shape(node.inputs[0])
    if sizes is None:
        return None
    axis = ops.Flatten.of(node).axis
    axis += len(sizes) if axis < 0 else 0
    return [_missing_size(sizes[:axis], []), _missing_size(sizes[axis:], [])]


def _concat_shape(walk: _Walk, node: Node) -> Sizes | None:
    shapes = [sizes for value in node.inputs if (sizes := walk.shape(value)) is not None]
    if len(shapes) < len(node.inputs) or len({len(sizes) for sizes in shapes}) != 1 or not shapes[0]:
        return None
    axis = ops.Concat.of(node).axis % len(shapes[0])
    output_sizes: Sizes = [
        next((s[i] for s in shapes if s[i] is not None), None) for i in range(len(shapes[0]))
    ]
    whole: Size = 0
    for sizes in shapes:
        whole = compute_size("+", whole, sizes[axis])
    output_sizes[axis] = whole
    return output_sizes


def _range_shape(walk: _Walk, node: Node) -> Sizes | None:
    """Return a Range from a constant up to a computed end."""
    start, limit, step = (walk.content(value) for value in node.inputs)
    if not (start and limit and step) or step != [1]:
        return None
    count = compute_size("-", limit[0], start[0])
    return [count if count is not None and is_never_negative(count) else compute_size("max", count, 0)]


def _tile_shape(walk: _Walk, node: Node) -> Sizes | None:
    pairs = _pairs(walk.shape(node.inputs[0]) or [], walk.content(node.inputs[1]) or [])
    return None if pairs is None else [compute_size("*", size, count) for size, count in pairs]


_SHAPES: dict[str, Callable[[_Walk, Node], Sizes | None]] = {
    **dict.fromkeys(
        ("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min",
         "Mod", "Mul", "Or", "Pow", "Sub", "Where", "Xor"), _broadcast,
    ),
    **dict.fromkeys(
        ("Cast", "Clip", "DequantizeLinear", "Erf", "Gelu", "HardSwish", "Identity", "LayerNormalization",
         "Not", "QuantizeLinear", "Relu", "Sigmoid", "Softmax", "Sqrt", "Tanh"), _like_first,
    ),
    "Concat": _concat_shape,
    "ConstantOfShape": lambda walk, node: walk.content(node.inputs[0]),
    "Expand": _expand_shape,
    "Flatten": _flatten_shape,
    "Gather": _gather_shape,
    "MatMul": _product,
    "Range": _range_shape,
    "Reshape": _reshape_shape,
    "Resize": _resize_shape,
    "Slice": _slice_shape,
    "Squeeze": _squeeze_shape,
    "Tile": _tile_shape,
    "Transpose": _transpose_shape,
    "Unsqueeze": _unsqueeze_shape,
}  # fmt: skip
"""Operator -> the sizes of what it makes."""
