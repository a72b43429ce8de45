"""Elements moved, on one grid or to another; where nothing need be moved, no native step at all."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds, dtype_of
from intact.engine.cpu.layout import same_strides_under
from intact.engine.cpu.steps.views import dense, is_dense, move, part_of, regrid, zero_of
from intact.engine.steps import (
    Concat,
    Expand,
    Gather,
    Pad,
    Reshape,
    Resize,
    ShapeArithmetic,
    Slice,
    StackPlanes,
    Transpose,
)
from intact.engine.steps.moves.gather import check_rows
from intact.kernels import moves
from intact.kernels.program import NativeStep, View


@binds(Concat)
def bind_concat(step: Concat, binding: Binding) -> list[NativeStep]:
    """Every input goes into its slice of y."""
    y, axis = binding.view(step.y), step.axis % len(binding.shape(step.y))
    steps: list[NativeStep] = []
    start = 0
    for name in step.xs:
        x = binding.view(name)
        shape = x.sizes
        part = part_of(y, {axis: start}, shape)
        steps += move(binding, name, x, step.y, part)
        start += shape[axis]
    return steps


@binds(Reshape)
def bind_reshape(step: Reshape, binding: Binding) -> list[NativeStep]:
    """The elements in ONNX's order. Nothing where they lie in it on both sides."""
    x, y = binding.view(step.x), binding.view(step.y)
    strides = same_strides_under(x.sizes, x.strides, y.sizes)
    if strides is not None:
        x = x.part(x.offset, y.sizes, strides)
    elif is_dense(y):
        y = dense(y, x.sizes)
    elif is_dense(x):
        x = dense(x, y.sizes)
    else:
        rows = binding.temporary(dtype_of(binding.tensor(step.y)), x.sizes)
        again = dense(rows, y.sizes)
        return [
            *move(binding, step.x, x, step.x, rows),
            *move(binding, step.x, again, step.y, y),
        ]
    return move(binding, step.x, x, step.y, y)


@binds(Transpose)
def bind_transpose(step: Transpose, binding: Binding) -> list[NativeStep]:
    """Axes in another order. Nothing where y lies as x does."""
    x = binding.view(step.x)
    sizes, strides = ([axes[i] for i in step.perm] for axes in (x.sizes, x.strides))
    return move(binding, step.x, x.part(x.offset, sizes, strides), step.y, binding.view(step.y))


@binds(Slice)
def bind_slice(step: Slice, binding: Binding) -> list[NativeStep]:
    """Every so many elements along each axis."""
    shape = binding.shape(step.y)
    part = part_of(binding.view(step.x), dict(enumerate(step.starts)), shape, step.steps)
    return move(binding, step.x, part, step.y, binding.view(step.y))


@binds(Pad)
def bind_pad(step: Pad, binding: Binding) -> list[NativeStep]:
    """What it fills with, then x in its place. Bytes fill all of y, numbers its rim."""
    x, y = binding.view(step.x), binding.view(step.y)
    starts = {axis: before for axis, (before, _) in enumerate(step.pads)}
    target = part_of(y, starts, x.sizes)
    return [*_filled(step, binding, x, y), *move(binding, step.x, x, step.y, target)]


def _filled(step: Pad, binding: Binding, x: View, y: View) -> list[NativeStep]:
    codes = binding.tensor(step.y).codes
    if codes is not None:
        byte = int(binding.array(step.fill)[0]) + codes.offset if step.fill else zero_of(codes)
        return [moves.fill(y, byte)]
    if not step.fill:
        return [moves.fill(y, 0)]
    one = binding.constant(step.fill)
    return [
        moves.copy(one.part(one.offset, part.sizes, [0] * len(part.sizes)), part, binding.kernels)
        for part in _rim(step, x, y)
    ]


def _rim(step: Pad, x: View, y: View) -> list[View]:
    """The parts of y around x: along each axis what lies before and behind, within x along those before."""
    parts = []
    for axis, (before, after) in enumerate(step.pads):
        inner = {a: step.pads[a][0] for a in range(axis)}
        for start, count in ((0, before), (before + x.sizes[axis], after)):
            if count:
                shape = (*x.sizes[:axis], count, *y.sizes[axis + 1 :])
                parts.append(part_of(y, {**inner, axis: start}, shape))
    return parts


@binds(Gather)
def bind_gather(step: Gather, binding: Binding) -> list[NativeStep]:
    """Elements of a tensor or of a constant; a run that meets an index out of range ends there."""
    x, index = binding.view(step.x), binding.view(step.index)
    if step.index in binding.plan.constants:
        check_rows(binding.array(step.index), x.sizes[step.axis], f"constant '{step.index}'")
    return [moves.gather(x, index, binding.view(step.y), step.axis)]


@binds(Expand)
def bind_expand(step: Expand, binding: Binding) -> list[NativeStep]:
    """A copy that reads axes of size 1 without going along them."""
    x, y = binding.view(step.x), binding.view(step.y)
    more = len(y.sizes) - len(x.sizes)
    strides = [0] * more + [0 if size == 1 else n for size, n in zip(x.sizes, x.strides, strict=True)]
    return move(binding, step.x, x.part(x.offset, y.sizes, strides), step.y, y)


@binds(ShapeArithmetic)
def bind_shape_arithmetic(step: ShapeArithmetic, binding: Binding) -> list[NativeStep]:
    """A copy of what these sizes give."""
    return [moves.copy(binding.hold(binding.values[y]), binding.view(y), binding.kernels) for y in step.ys]


@binds(StackPlanes)
def bind_stack_planes(step: StackPlanes, binding: Binding) -> list[NativeStep]:
    """A copy for each plane of the window, and one of the nearest plane, or real 0, where there is none."""
    x, y, codes = binding.view(step.x), binding.view(step.y), binding.tensor(step.y).codes
    volumes, height = x.sizes[0] // step.depth, y.strides[2]
    hop, by_row = (height, step.kernel * height) if step.rows else (x.sizes[1] * y.strides[1], height)
    steps: list[NativeStep] = []

    def under(tap: int, begin: int, end: int) -> View:
        """What windows have of a plane: [volumes, windows, channels, height, width]."""
        first = y.offset + begin * y.strides[0] + tap * hop
        strides = (step.places * y.strides[0], y.strides[0], y.strides[1], by_row, y.strides[3])
        return y.part(first, (volumes, end - begin, *x.sizes[1:]), strides)

    def copy(to: View, plane: int, hop: int) -> list[NativeStep]:
        """Planes of each volume, `hop` from one window to the next."""
        strides = (step.depth * x.strides[0], hop * x.strides[0], *x.strides[1:])
        planes = x.part(x.offset + plane * x.strides[0], to.sizes, strides)
        return move(binding, step.x, planes, step.y, to)

    for tap in range(step.kernel):
        windows, plane = step.planes(tap)
        for begin, end, nearest in ((0, windows.start, 0), (windows.stop, step.places, step.depth - 1)):
            if begin < end and step.repeats:
                steps += copy(under(tap, begin, end), nearest, 0)
            elif begin < end:
                steps.append(moves.fill(under(tap, begin, end), 0 if codes is None else zero_of(codes)))
        if windows:
            steps += copy(under(tap, windows.start, windows.stop), plane, step.stride)
    return steps


@binds(Resize)
def bind_resize(step: Resize, binding: Binding) -> list[NativeStep]:
    """Nearest neighbour."""
    indices = [range(size) for size in binding.shape(step.y)]
    chosen = dict(zip(step.axes, step.indices, strict=True))
    lists = [binding.array(chosen[i]).tolist() if i in chosen else list(r) for i, r in enumerate(indices)]
    resized = moves.resize(binding.view(step.x), binding.view(step.y), lists)
    return [resized, *regrid(binding, step.x, step.y)]
