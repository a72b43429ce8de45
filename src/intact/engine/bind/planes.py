"""Native steps for what is no dense sum: codes made from floats and back, pools, sums of two, and moves."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from intact.engine.arrays import check_rows
from intact.engine.bind.core import Binding, Shape, binder, dense_strides, dtype_of
from intact.engine.steps import (
    Add,
    Codes,
    Concat,
    Conv,
    Dequantize,
    Gather,
    Pad,
    Pool,
    Quantize,
    Reinterpret,
    Rescale,
    Reshape,
    Resize,
    Slice,
    Table,
    Transpose,
)
from intact.errors import FileFormatError, QuantValueError
from intact.kernels import planes
from intact.kernels.planes import Bytes, Window
from intact.kernels.program import NativeStep, View
from intact.numerics import ratio


@binder("quantize")
def bind_quantize(step: Quantize, binding: Binding) -> list[NativeStep]:
    """float32 -> codes."""
    codes = binding.codes(step.y)
    x, y = binding.view(step.x), binding.view(step.y)
    return [planes.quantize(x, y, codes.scale, grid_of(codes), binding.kernels)]


@binder("dequantize")
def bind_dequantize(step: Dequantize, binding: Binding) -> list[NativeStep]:
    """codes -> float32."""
    codes = binding.codes(step.x)
    x, y = binding.view(step.x), binding.view(step.y)
    return [planes.dequantize(x, y, codes.scale, zero_of(codes), binding.kernels)]


@binder("rescale", in_place=("x",))
def bind_rescale(step: Rescale, binding: Binding) -> list[NativeStep]:
    """Codes of one grid to codes of another."""
    return _move(binding, step.x, binding.view(step.x), step.y, binding.view(step.y))


@binder("reinterpret", in_place=("x",))
def bind_reinterpret(step: Reinterpret, binding: Binding) -> list[NativeStep]:
    """The same codes: the same bytes, or all of them so much above."""
    x, y = binding.view(step.x), binding.view(step.y)
    if further := binding.codes(step.y).offset - binding.codes(step.x).offset:
        shifted = np.clip(np.arange(256) + further, 0, 255).astype(np.uint8)
        return [planes.lookup(x, binding.hold(shifted), y, binding.kernels)]
    return [] if binding.same_memory(x, y) else [planes.copy(x, y, binding.kernels)]


@binder("table", in_place=("x",))
def bind_table(step: Table, binding: Binding) -> list[NativeStep]:
    """A function of one code.

    Raises:
        FileFormatError: Of a code that can occur it gives one that y's grid does not have.
    """
    low, high = binding.codes(step.x).byte_range
    made = binding.array(step.table)[low : high + 1]
    least, most = binding.codes(step.y).byte_range
    if made.min() < least or made.max() > most:
        got, want = f"a table of {made.min()} to {made.max()}", f"bytes from {least} to {most}"
        raise FileFormatError(f"step '{step.name}'", got, want, "build the plan from the model again")
    table = binding.constant(step.table)
    return [planes.lookup(binding.view(step.x), table, binding.view(step.y), binding.kernels)]


@binder("add", in_place=("a", "b"))
def bind_add(step: Add, binding: Binding) -> list[NativeStep]:
    """Sum of two tensors of codes."""
    y, shape = binding.codes(step.y), binding.shape(step.y)
    grid = grid_of(y, step.low, step.high)
    a, b = (_broadcast(binding, name, shape) for name in (step.a, step.b))
    from_a, from_b = (_operand(binding.codes(name), y) for name in (step.a, step.b))
    return [planes.add(a, b, binding.view(step.y), from_a, from_b, grid, binding.kernels)]


@binder("pool", images=True)
def bind_pool(step: Pool, binding: Binding) -> list[NativeStep]:
    """Maximum or mean over windows."""
    x, y = binding.image(step.x), binding.image(step.y)
    sizes, positions = binding.shape(step.x)[2:], binding.shape(step.y)[2:]
    window = Window((sizes[0], sizes[1]))
    if step.kernel is not None:
        window = Window(step.kernel, step.strides, step.dilations, step.pads)
    counts = _counts(window, sizes, positions, step.mode == "average" and step.count_include_pad)
    if 0 in counts:
        raise QuantValueError(
            f"step '{step.name}'",
            f"pads {step.pads} with kernel {window.kernel} over {sizes}",
            "at least one value in every window",
            "pad by less than the kernel",
        )
    if step.mode == "max":
        pooled = planes.max_pool(x, y, window, binding.kernels)
        return [pooled, *_regrid(binding, step.x, step.y)]
    from_codes, to_codes = binding.codes(step.x), binding.codes(step.y)
    multipliers = {n: float(ratio(from_codes.scale, to_codes.scale, n)) for n in sorted(counts)}
    return [
        planes.mean_pool(
            x,
            y,
            window,
            zero_of(from_codes),
            multipliers,
            grid_of(to_codes),
            include_pads=step.count_include_pad,
            kernels=binding.kernels,
        )
    ]


@binder("concat")
def bind_concat(step: Concat, binding: Binding) -> list[NativeStep]:
    """Every input goes into its slice of y."""
    y, axis = binding.view(step.y), step.axis % len(binding.shape(step.y))
    steps: list[NativeStep] = []
    start = 0
    for name in step.xs:
        shape = binding.shape(name)
        part = _part(y, {axis: start}, shape)
        steps += _move(binding, name, binding.view(name), step.y, part)
        start += shape[axis]
    return steps


@binder("reshape")
def bind_reshape(step: Reshape, binding: Binding) -> list[NativeStep]:
    """The elements in ONNX's order. Nothing where they lie in it on both sides."""
    x, y = binding.view(step.x), binding.view(step.y)
    if _is_dense(y):
        y = _dense(y, x.sizes)
    elif _is_dense(x):
        x = _dense(x, y.sizes)
    else:
        rows = binding.temporary(dtype_of(binding.tensor(step.y)), x.sizes)
        again = _dense(rows, y.sizes)
        return [
            *_move(binding, step.x, x, step.x, rows),
            *_move(binding, step.x, again, step.y, y),
        ]
    return _move(binding, step.x, x, step.y, y)


@binder("transpose")
def bind_transpose(step: Transpose, binding: Binding) -> list[NativeStep]:
    """Axes in another order. Nothing where y lies as x does."""
    x = binding.view(step.x)
    sizes, strides = ([axes[i] for i in step.perm] for axes in (x.sizes, x.strides))
    return _move(binding, step.x, x.part(x.offset, sizes, strides), step.y, binding.view(step.y))


@binder("slice")
def bind_slice(step: Slice, binding: Binding) -> list[NativeStep]:
    """Every so many elements along each axis."""
    shape = binding.shape(step.y)
    part = _part(binding.view(step.x), dict(enumerate(step.starts)), shape, step.steps)
    return _move(binding, step.x, part, step.y, binding.view(step.y))


@binder("pad")
def bind_pad(step: Pad, binding: Binding) -> list[NativeStep]:
    """Real 0 everywhere, then x in its place."""
    x, y = binding.view(step.x), binding.view(step.y)
    codes = binding.tensor(step.y).codes
    starts = {axis: before for axis, (before, _) in enumerate(step.pads)}
    target = _part(y, starts, x.sizes)
    fill = planes.fill(y, 0 if codes is None else zero_of(codes))
    return [fill, *_move(binding, step.x, x, step.y, target)]


@binder("gather")
def bind_gather(step: Gather, binding: Binding) -> list[NativeStep]:
    """Rows of a tensor or of a constant; the engine compares indices that are its inputs before each run."""
    x, index = binding.view(step.x), binding.view(step.index)
    if step.index in binding.plan.constants:
        check_rows(binding.array(step.index), x.sizes[0], f"constant '{step.index}'")
    return [planes.pick(x, index, binding.view(step.y))]


@binder("resize")
def bind_resize(step: Resize, binding: Binding) -> list[NativeStep]:
    """Nearest neighbour."""
    indices = [range(size) for size in binding.shape(step.y)]
    chosen = dict(zip(step.axes, step.indices, strict=True))
    lists = [binding.array(chosen[i]).tolist() if i in chosen else list(r) for i, r in enumerate(indices)]
    resized = planes.gather(binding.view(step.x), binding.view(step.y), lists)
    return [resized, *_regrid(binding, step.x, step.y)]


def is_depthwise(step: Conv, binding: Binding) -> bool:
    """Whether `bind_depthwise` takes this convolution: each channel by itself."""
    out, _, _, inputs = binding.weight(step.weight).shape
    return step.groups > 1 and inputs == 1 and out == step.groups and not step.epilogue.factors


def bind_depthwise(step: Conv, binding: Binding) -> list[NativeStep]:
    """A convolution of each channel by itself; `bind_conv` hands it over."""
    weight = binding.array(step.weight)
    window = Window((weight.shape[1], weight.shape[2]), step.strides, step.dilations, step.pads)
    taps = np.ascontiguousarray(weight[..., 0].transpose(1, 2, 0))
    epilogue = _depthwise_epilogue(step, binding)
    x, y = binding.image(step.x), binding.image(step.y)
    return [planes.depthwise(x, y, taps, window, epilogue, binding.kernels)]


def _depthwise_epilogue(step: Conv, binding: Binding) -> planes.DepthwiseEpilogue:
    epilogue, weight = step.epilogue, binding.array(step.weight)
    channels = weight.shape[0]
    correction = -zero_of(binding.codes(step.x)) * weight.astype(np.int64).sum(axis=(1, 2, 3))
    if epilogue.integer_bias:
        correction = correction + binding.array(epilogue.integer_bias)
    codes = binding.tensor(step.y).codes
    clamps = not epilogue.activation  # a function's output has the whole grid, or all floats
    low, high = (epilogue.low, epilogue.high) if clamps else (None, None)
    bias = binding.array(epilogue.bias) if epilogue.bias else np.float32(0)
    return planes.DepthwiseEpilogue(
        multiplier=np.broadcast_to(binding.array(epilogue.multiplier), channels),
        bias=np.broadcast_to(bias, channels),
        correction=correction.astype(np.int32),
        grid=None if codes is None else grid_of(codes, low, high),
        low=low if codes is None and low is not None else float("-inf"),
        high=high if codes is None and high is not None else float("inf"),
        residual=binding.image(epilogue.residual) if epilogue.residual else None,
        residual_multiplier=epilogue.residual_multiplier,
        residual_zero=zero_of(binding.codes(epilogue.residual)) if epilogue.residual else 0,
        function=epilogue.activation,
        scale=1.0 if codes is None else codes.scale,
        slopes=np.broadcast_to(binding.array(epilogue.slope), channels) if epilogue.slope else None,
    )


def zero_of(codes: Codes) -> int:
    """The byte that means 0.0."""
    return codes.zero_point + codes.offset


def grid_of(codes: Codes, low: float | None = None, high: float | None = None) -> Bytes:
    """The bytes of a grid, within bounds in codes besides."""
    lowest = codes.low if low is None else max(codes.low, int(low))
    highest = codes.high if high is None else min(codes.high, int(high))
    return Bytes(zero_of(codes), lowest + codes.offset, highest + codes.offset)


def _operand(codes: Codes, y: Codes) -> tuple[int, float]:
    return zero_of(codes), float(ratio(codes.scale, y.scale))


def _move(binding: Binding, x_name: str, x: View, y_name: str, y: View) -> list[NativeStep]:
    """Elements of one view into another of the same shape, on the grid of the second."""
    from_codes, to_codes = binding.tensor(x_name).codes, binding.tensor(y_name).codes
    if from_codes is None or to_codes is None or _same_bytes(from_codes, to_codes):
        return [] if binding.same_memory(x, y) else [planes.copy(x, y, binding.kernels)]
    zero, multiplier = _operand(from_codes, to_codes)
    return [planes.rescale(x, y, zero, multiplier, grid_of(to_codes), binding.kernels)]


def _regrid(binding: Binding, x_name: str, y_name: str) -> list[NativeStep]:
    """What was moved to y as bytes of x becomes bytes of y."""
    y = binding.view(y_name)
    return _move(binding, x_name, y, y_name, y)


def _same_bytes(a: Codes, b: Codes) -> bool:
    within = b.low <= a.low and a.high <= b.high
    return (a.scale, a.zero_point, a.offset) == (b.scale, b.zero_point, b.offset) and within


def _broadcast(binding: Binding, name: str, shape: Shape) -> View:
    """A tensor under a larger shape."""
    x = binding.view(name)
    new = len(shape) - len(x.sizes)
    strides = [0] * new + [
        0 if size == 1 and size != wanted else stride
        for size, wanted, stride in zip(x.sizes, shape[new:], x.strides, strict=True)
    ]
    return x.part(x.offset, shape, strides)


def _part(x: View, starts: dict[int, int], shape: Sequence[int], steps: Sequence[int] | None = None) -> View:
    """A part of a view: from `starts` on, `shape` elements, every one of `steps`."""
    offset = x.offset + sum(start * x.strides[axis] for axis, start in starts.items() if prod(shape))
    strides = [stride * step for stride, step in zip(x.strides, steps or [1] * len(shape), strict=True)]
    return x.part(offset, shape, strides)


def _dense(x: View, shape: Shape) -> View:
    """Row-major memory under another shape."""
    return x.part(x.offset, shape, dense_strides(shape, x.itemsize))


def _is_dense(x: View) -> bool:
    strides = dense_strides(x.sizes, x.itemsize)
    return all(size == 1 or a == b for size, a, b in zip(x.sizes, x.strides, strides, strict=True))


def _counts(window: Window, sizes: Shape, positions: Shape, include_pads: bool) -> set[int]:
    """Every number of elements that a window counts."""
    per_axis = []
    for axis in range(2):
        before, after = (window.pads[axis], window.pads[axis + 2]) if include_pads else (0, 0)
        taps = np.arange(window.kernel[axis]) * window.dilations[axis] - window.pads[axis]
        at = np.arange(positions[axis])[:, None] * window.strides[axis] + taps
        per_axis.append(set(((at >= -before) & (at < sizes[axis] + after)).sum(axis=1).tolist()))
    return {down * across for down in per_axis[0] for across in per_axis[1]}
