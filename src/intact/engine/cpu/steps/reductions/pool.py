"""Maximum or mean over windows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from intact.engine.cpu.binding import Binding, binds, dtype_of
from intact.engine.cpu.steps.base.views import dense, grid_of, regrid, zero_of
from intact.engine.steps import Pool, Shape
from intact.errors import QuantValueError
from intact.kernels import NativeStep, PixelWindow, View, moves, pool


@binds(Pool)
def bind_pool(step: Pool, binding: Binding) -> list[NativeStep]:
    """Maximum or mean over windows."""
    x, y = binding.image(step.x), binding.image(step.y)
    sizes, positions = binding.shape(step.x)[2:], binding.shape(step.y)[2:]
    window = PixelWindow((sizes[0], sizes[1]))
    if step.kernel is not None:
        window = PixelWindow(step.kernel, step.strides, step.dilations, step.pads)
    counts = _counts(window, sizes, positions, step.mode == "average" and step.count_include_pad)
    if 0 in counts:
        raise QuantValueError(
            f"step '{step.name}'",
            f"pads {step.pads} with kernel {window.kernel} over {sizes}",
            "at least one value in every window",
            "pad by less than the kernel",
        )
    if step.mode == "max":
        pools = _largest(step, binding, window)
        return pools if binding.grid(step.x) is None else [*pools, *regrid(binding, step.x, step.y)]
    from_codes, to_codes = binding.codes(step.x), binding.codes(step.y)
    return [
        pool.mean_pool(
            x,
            y,
            window,
            (zero_of(from_codes), from_codes.scale),
            to_codes.scale,
            grid_of(to_codes),
            include_pads=step.count_include_pad,
            kernels=binding.kernels,
        )
    ]


def _largest(step: Pool, binding: Binding, window: PixelWindow) -> list[NativeStep]:
    """The largest number of each window, of large ones first down columns and then along rows: fewer taps."""
    x, y, (down, across) = binding.image(step.x), binding.image(step.y), window.kernel
    dtype = dtype_of(binding.tensor(step.x))
    make = pool.max_pool if binding.grid(step.x) is not None else pool.float_max_pool
    n, _, width, channels = x.sizes
    large = down * across >= _LARGE * (down + across)
    if not binding.has_temporary:
        return [make(x, y, window, binding.kernels)]
    few = channels < _FEW and (large or dtype == "float32" or channels < _FEW_BYTES)
    if few and _rows_are_dense(x, np.dtype(dtype).itemsize):
        return _of_few_channels(x, y, window, dtype, binding, make)
    if not large:
        return [make(x, y, window, binding.kernels)]
    middle = binding.temporary(dtype, (n, y.sizes[1], width, channels))
    return [
        make(x, middle, _along(window, 0), binding.kernels),
        make(middle, y, _along_rows(_along(window, 1)), binding.kernels),
    ]


_LARGE = 2  # times fewer taps, at least, where there is another pass over memory

_FEW = 16  # channels that leave most of a register idle

_FEW_BYTES = 4  # where the window is small besides, and passes over bytes cost as much


def _of_few_channels(
    x: View, y: View, window: PixelWindow, dtype: str, binding: Binding, make: Callable[..., NativeStep]
) -> list[NativeStep]:
    """Down columns, with the pixels of a row in place of channels; turned; the same; and back."""
    (n, height, width, channels), (high, wide) = x.sizes, y.sizes[1:3]
    lines = x.part(x.offset, (n, height, 1, width * channels), (*x.strides[:2], 0, np.dtype(dtype).itemsize))
    first, turned, last = (
        binding.temporary(dtype, shape)
        for shape in ((n, high, width, channels), (n, width, high, channels), (n, wide, high, channels))
    )
    return [
        make(lines, dense(first, (n, high, 1, width * channels)), _along(window, 0), binding.kernels),
        moves.copy(_transpose(first), turned, binding.kernels),
        make(
            dense(turned, (n, width, 1, high * channels)), dense(last, (n, wide, 1, high * channels)),
            _along(window, 1), binding.kernels,
        ),
        moves.copy(_transpose(last), y, binding.kernels),
    ]  # fmt: skip


def _rows_are_dense(x: View, itemsize: int) -> bool:
    return x.strides[2] == x.sizes[3] * itemsize and (x.sizes[3] == 1 or x.strides[3] == itemsize)


def _transpose(image: View) -> View:
    sizes, strides = ([axes[i] for i in (0, 2, 1, 3)] for axes in (image.sizes, image.strides))
    return image.part(image.offset, sizes, strides)


def _along(window: PixelWindow, axis: int) -> PixelWindow:
    """One axis of a window, as one over columns."""
    before, behind = window.pads[axis], window.pads[axis + 2]
    kernel, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
    return PixelWindow((kernel, 1), (stride, 1), (dilation, 1), (before, 0, behind, 0))


def _along_rows(window: PixelWindow) -> PixelWindow:
    """A window over columns, as one along rows."""
    (kernel, _), (stride, _), (dilation, _) = window.kernel, window.strides, window.dilations
    return PixelWindow((1, kernel), (1, stride), (1, dilation), (0, window.pads[0], 0, window.pads[2]))


def _counts(window: PixelWindow, sizes: Shape, positions: Shape, include_pads: bool) -> set[int]:
    """Every number of elements that a window counts."""
    per_axis = []
    for axis in range(2):
        before, after = (window.pads[axis], window.pads[axis + 2]) if include_pads else (0, 0)
        taps = np.arange(window.kernel[axis]) * window.dilations[axis] - window.pads[axis]
        at = np.arange(positions[axis])[:, None] * window.strides[axis] + taps
        per_axis.append(set(((at >= -before) & (at < sizes[axis] + after)).sum(axis=1).tolist()))
    return {down * across for down in per_axis[0] for across in per_axis[1]}
