"""The sizes of what operators make, where ONNX's inference follows no arithmetic with free sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.passes.quotients import compute_number, number_of_float, round_down
from intact.engine.lower.passes.size_walk import (
    Size,
    Sizes,
    SizeWalk,
    compute_size,
    multiply_sizes,
    pair_sizes,
)
from intact.engine.steps.base.dims import is_never_negative
from intact.errors import FileFormatError
from intact.graph import Node, Value, ops


def axes_from_front(node: Node, axes: Iterable[int], rank: int) -> list[int]:
    """Return the axes that a node names, counted from 0, in a tensor of `rank`.

    Raises:
        FileFormatError: There is no such axis, or Unsqueeze names one twice: ONNX's inference does not look
            where it knows no ranks.
    """
    named = list(axes)
    places = [axis % rank for axis in named if -rank <= axis < rank]
    wanted = len(set(places)) if node.op_type == "Unsqueeze" else len(places)
    if wanted < len(named):
        where = f"node '{node.name}' ({node.op_type}): axes"
        raise FileFormatError(where, f"{named}"[:80], f"axes of {rank}, each once", "export the model again")
    return places


def _reduction_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    """Return the sizes of a reduction, along the axes that an input names or along all."""
    sizes, op = walk.shape(node.inputs[0]), ops.Reduction.of(node)
    if sizes is None:
        return None
    named = op.axes_of(node, walk.constants)
    if named is None:
        return None
    axes = set(axes_from_front(node, named, len(sizes)))
    if not axes and not op.noop_with_empty_axes:
        axes = set(range(len(sizes)))
    whole: Sizes = [1 if axis in axes else size for axis, size in enumerate(sizes)]
    return whole if op.keepdims else [size for axis, size in enumerate(sizes) if axis not in axes]


def _like_first(walk: SizeWalk, node: Node) -> Sizes | None:
    return walk.shape(node.inputs[0])


def _broadcast(walk: SizeWalk, node: Node) -> Sizes | None:
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


def _expand_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    sizes, target = walk.shape(node.inputs[0]), walk.content(node.inputs[1])
    return None if sizes is None or target is None else _together([sizes, target])


def _product(walk: SizeWalk, node: Node) -> Sizes | None:
    a, b = (walk.shape(value) for value in node.inputs[:2])
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    return [*_together([a[:-2], b[:-2]] if a[:-2] or b[:-2] else [[]]), a[-2], b[-1]]


def _transpose_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    sizes = walk.shape(node.inputs[0])
    return None if sizes is None else [sizes[i] for i in ops.Transpose.of(node).order(len(sizes))]


def _reshape_shape(walk: SizeWalk, node: Node) -> Sizes | None:
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
    left = list(sizes)
    unmatched = Counter[Size]()
    for size in targets:
        if size in left and size is not None:
            left.remove(size)
        else:
            unmatched[size] += 1
    whole, part = multiply_sizes(left), multiply_sizes(list(unmatched.elements()))
    if isinstance(whole, int) and isinstance(part, int) and part and whole % part:
        return None
    return compute_size("/", whole, part)


def _resize_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    x, op = walk.shape(node.inputs[0]), ops.Resize.of(node)
    scales = walk.constants(node.inputs[2]) if len(node.inputs) > 2 else None
    if x is None or op.axes is not None or op.keep_aspect_ratio_policy != "stretch":
        return None
    if scales is None or scales.size != len(x):
        wanted = walk.content(node.inputs[3]) if len(node.inputs) > 3 else None
        return wanted if wanted is not None and len(wanted) == len(x) else None
    check_scales(node, scales)
    return [_times_scale(n, s) for n, s in zip(x, scales.astype(np.float64).tolist(), strict=True)]


def _times_scale(size: Size, scale: float) -> Size:
    """Return ``floor(size * scale)``; of a free size where that product is exact."""
    if isinstance(size, int):
        return int(np.floor(size * scale))
    return round_down(compute_number("*", size, number_of_float(scale)))


def check_scales(node: Node, scales: NDArray) -> None:
    """Raise FileFormatError for scales of a Resize that are not above 0, or larger than any tensor."""
    if not np.all((scales > 0) & (scales < _MOST)):  # false for NaN
        where, got = f"node '{node.name}' ({node.op_type}): scales", f"{scales}"[:80]
        raise FileFormatError(where, got, f"numbers above 0 and below {_MOST}", "export the model again")


_MOST = 2**31


def window_steps(size: int | str, more: int, stride: int) -> Size:
    """Return ``(size + more) // stride``, for images that hold the window once."""
    return compute_size("/", compute_size("+", size, more), stride)


def _conv_transpose_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    x, w, op = walk.shape(node.inputs[0]), walk.shape(node.inputs[1]), ops.ConvTranspose.of(node)
    if x is None or w is None or len(x) != len(w) or op.output_shape or not isinstance(w[1], int):
        return None
    rank = len(x) - 2
    pads, more = op.pads or (0, 0) * rank, op.output_padding or (0,) * rank
    sizes: Sizes = [x[0], w[1] * op.group]
    axes = zip(x[2:], w[2:], op.strides_of(rank), op.dilations_of(rank), strict=True)
    for axis, (size, k, stride, dilation) in enumerate(axes):
        scaled = compute_size("*", size, stride)
        if op.auto_pad.startswith("SAME"):
            sizes.append(scaled)
            continue
        if not isinstance(k, int):
            return None
        around = pads[axis] + pads[axis + rank] if op.auto_pad == "NOTSET" else 0
        reach = (k - 1) * dilation + 1 - stride + more[axis] - around
        sizes.append(compute_size("+", scaled, reach))
    return sizes


def _gather_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    """Return the sizes of the indices in place of the axis that they choose from."""
    sizes, index = walk.shape(node.inputs[0]), walk.shape(node.inputs[1])
    if not sizes or index is None:
        return None
    (axis,) = axes_from_front(node, [ops.Gather.of(node).axis], len(sizes))
    return [*sizes[:axis], *index, *sizes[axis + 1 :]]


def _slice_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    """Return the elements from a start up to an end, which may both be computed."""
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


def first_of_slice(size: Size, start: Size) -> Size:
    """Return the first element that a Slice forward reads of an axis; negative starts count from the end."""
    if start is None or (isinstance(start, int) and start >= 0) or is_never_negative(start):
        return start
    back = compute_size("*", start, -1)
    if back is None or not is_never_negative(back):
        return None
    first = compute_size("max", compute_size("-", size, back), 0)
    if isinstance(start, int):
        return first
    # 0 elements from the end are 0 from the beginning, which is all.
    return compute_size("mod", first, compute_size("max", size, 1))


def _slice_length(size: Size, start: Size, end: Size) -> Size:
    """Return how many elements there are from `start` to `end` of an axis."""
    first = first_of_slice(size, start)
    if size is None or first is None or end is None:
        return None
    if isinstance(end, int) and end >= _MOST - 1:
        stop: Size = size
    elif isinstance(end, int) and end < 0:
        stop = compute_size("max", compute_size("+", size, end), 0)
    elif is_never_negative(end):
        stop = compute_size("min", size, end)
    else:
        return None
    return compute_size("max", compute_size("-", stop, first), 0) if first else stop


def _pad_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    sizes, widths = walk.shape(node.inputs[0]), walk.content(node.inputs[1])
    if sizes is None or widths is None or len(widths) != 2 * len(sizes) or len(node.inputs) > 3:
        return None
    both = zip(widths[: len(sizes)], widths[len(sizes) :], strict=True)
    return [
        compute_size("+", size, compute_size("+", before, after))
        for size, (before, after) in zip(sizes, both, strict=True)
    ]


def _extreme_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    sizes, op = walk.shape(node.inputs[0]), ops.ArgMax.of(node)
    if not sizes:
        return None
    (axis,) = axes_from_front(node, [op.axis], len(sizes))
    return [*sizes[:axis], *([1] if op.keepdims else []), *sizes[axis + 1 :]]


def _squeeze_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    sizes = walk.shape(node.inputs[0])
    axes = walk.content(node.inputs[1]) if len(node.inputs) > 1 else None
    if sizes is None or axes is None or not all(isinstance(axis, int) for axis in axes):
        return None
    gone = axes_from_front(node, (axis for axis in axes if isinstance(axis, int)), len(sizes))
    return [size for axis, size in enumerate(sizes) if axis not in gone]


def _unsqueeze_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    sizes, axes = walk.shape(node.inputs[0]), walk.content(node.inputs[1])
    if sizes is None or axes is None or not all(isinstance(axis, int) for axis in axes):
        return None
    rank, rest = len(sizes) + len(axes), iter(sizes)
    new = axes_from_front(node, (axis for axis in axes if isinstance(axis, int)), rank)
    return [1 if axis in new else next(rest) for axis in range(rank)]


def _flatten_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    sizes = walk.shape(node.inputs[0])
    if sizes is None:
        return None
    axis = ops.Flatten.of(node).axis
    axis += len(sizes) if axis < 0 else 0
    return [_missing_size(sizes[:axis], []), _missing_size(sizes[axis:], [])]


def part_shape(walk: SizeWalk, node: Node, place: int) -> Sizes | None:
    """Return the sizes of the part of a Split at `place`."""
    sizes, op = walk.shape(node.inputs[0]), ops.Split.of(node)
    if not sizes:
        return None
    (axis,), part = axes_from_front(node, [op.axis], len(sizes)), None
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        parts = walk.content(node.inputs[1])
        part = parts[place] if parts is not None and len(parts) == len(node.outputs) else None
    elif op.num_outputs is not None and op.num_outputs == len(node.outputs):
        part = compute_size("/", compute_size("+", sizes[axis], op.num_outputs - 1), op.num_outputs)
        if place == op.num_outputs - 1:  # it has what is left
            part = compute_size("-", sizes[axis], compute_size("*", part, place))
    return [*sizes[:axis], part, *sizes[axis + 1 :]]


def _concat_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    shapes = [sizes for value in node.inputs if (sizes := walk.shape(value)) is not None]
    if len(shapes) < len(node.inputs) or len({len(sizes) for sizes in shapes}) != 1 or not shapes[0]:
        return None
    (axis,) = axes_from_front(node, [ops.Concat.of(node).axis], len(shapes[0]))
    output_sizes: Sizes = [
        next((s[i] for s in shapes if s[i] is not None), None) for i in range(len(shapes[0]))
    ]
    whole: Size = 0
    for sizes in shapes:
        whole = compute_size("+", whole, sizes[axis])
    output_sizes[axis] = whole
    return output_sizes


def _range_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    """Return the length of a Range of whole numbers in constant steps."""
    start, limit, step = (_whole(walk, value) for value in node.inputs)
    if not (start and limit and step) or not isinstance(step[0], int) or step[0] == 0:
        return None
    first, last = (start[0], limit[0]) if step[0] > 0 else (limit[0], start[0])
    span, hop = compute_size("-", last, first), abs(step[0])
    count = span if hop == 1 else compute_size("/", compute_size("+", span, hop - 1), hop)
    return [count if count is not None and is_never_negative(count) else compute_size("max", count, 0)]


def _whole(walk: SizeWalk, value: Value | None) -> Sizes | None:
    """Return the numbers of a vector of integers, or of a constant of floats that are whole."""
    array = walk.constants(value)
    if array is None or array.dtype.kind != "f":
        return walk.content(value)
    floats = array.reshape(-1).tolist()
    return [int(x) for x in floats] if all(map(float.is_integer, floats)) else None


def _tile_shape(walk: SizeWalk, node: Node) -> Sizes | None:
    pairs = pair_sizes(walk.shape(node.inputs[0]) or [], walk.content(node.inputs[1]) or [])
    return None if pairs is None else [compute_size("*", size, count) for size, count in pairs]


ShapeRule = Callable[[SizeWalk, Node], Sizes | None]

OUTPUT_SIZES: dict[str, ShapeRule] = {
    **dict.fromkeys(
        ("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min",
         "Mod", "Mul", "Or", "Pow", "Sub", "Where", "Xor"), _broadcast,
    ),
    **dict.fromkeys(
        (*ops.FUNCTIONS, *ops.of_kind("norm"), "BitwiseNot", "Cast", "CastLike", "CumSum", "DequantizeLinear",
         "Hardmax", "LpNormalization", "MeanVarianceNormalization", "QuantizeLinear", "Shrink", "Trilu"),
        _like_first,
    ),
    **dict.fromkeys(
        ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
         "ReduceProd", "ReduceSum", "ReduceSumSquare"), _reduction_shape,
    ),
    "ArgMax": _extreme_shape,
    "ArgMin": _extreme_shape,
    "Concat": _concat_shape,
    "ConvTranspose": _conv_transpose_shape,
    "ConstantOfShape": lambda walk, node: walk.content(node.inputs[0]),
    "Expand": _expand_shape,
    "Flatten": _flatten_shape,
    "Gather": _gather_shape,
    "Identity": _like_first,
    "ScatterElements": _like_first,
    "ScatterND": _like_first,
    "GatherElements": lambda walk, node: walk.shape(node.inputs[1]),
    "MatMul": _product,
    "Range": _range_shape,
    "Reshape": _reshape_shape,
    "Pad": _pad_shape,
    "Resize": _resize_shape,
    "Slice": _slice_shape,
    "Squeeze": _squeeze_shape,
    "Tile": _tile_shape,
    "Transpose": _transpose_shape,
    "Unsqueeze": _unsqueeze_shape,
}  # fmt: skip
"""Operator -> the sizes of what it makes."""
