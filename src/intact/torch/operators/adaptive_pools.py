"""Windows of adaptive pools whose sizes do not divide, and their ONNX forms.

A window of output i of n inputs reaches from ``floor(i * n / outputs)`` to ``ceil((i + 1) * n / outputs)``.
Gathering the elements of all windows, one behind the other, makes a pool with one kernel of it. Windows that
are shorter repeat their last element where the largest is wanted, and read a zero where sums are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = [
    "AxisWindows",
    "adaptive_translations",
    "axis_windows",
    "counts_of",
    "gather_windows",
    "output_sizes",
]


@dataclass(frozen=True)
class AxisWindows:
    """Describes the windows along one axis.

    Attributes:
        size: Elements of the axis.
        places: int64 [outputs, kernel], the elements of each window; those behind its end are `size`.
        counts: int64 [outputs], how many elements each window has.
    """

    size: int
    places: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def kernel(self) -> int:
        """Elements of the longest window."""
        return int(self.places.shape[1])

    @property
    def is_plain(self) -> bool:
        """Return whether each element lies in one window, and all windows have the same size."""
        return self.size == self.places.size

    @property
    def is_whole(self) -> bool:
        """Return whether each element is a window, so that the axis stays as it is."""
        return self.is_plain and self.kernel == 1

    @property
    def is_ragged(self) -> bool:
        """Return whether some windows are shorter than others."""
        return bool((self.counts != self.kernel).any())

    @property
    def places_for_max(self) -> NDArray[np.int64]:
        """The places with the last element of a window behind its end."""
        last = self.places[:, :1] + self.counts[:, None] - 1
        return np.asarray(np.minimum(self.places, last), np.int64)


def axis_windows(size: int, outputs: int) -> AxisWindows:
    """Return the windows of `outputs` means or maxima of an axis of `size` elements."""
    begin = np.arange(outputs) * size // outputs
    counts = -(-(np.arange(outputs) + 1) * size // outputs) - begin
    steps = np.arange(int(counts.max(initial=0)))
    places = np.where(steps < counts[:, None], begin[:, None] + steps, size)
    return AxisWindows(size, places.astype(np.int64), counts.astype(np.int64))


def output_sizes(output_size: Any, sizes: Sequence[Any]) -> list[Any]:
    """Return the output's sizes: a number stands for all axes, and None for the input's size."""
    wanted = [output_size] * len(sizes) if isinstance(output_size, int) else list(output_size)
    wanted = wanted * len(sizes) if len(wanted) == 1 else wanted
    return [n if out is None else out for out, n in zip(wanted, sizes, strict=True)]


def gather_windows(x: Tensor, axis: int, windows: AxisWindows) -> Tensor:
    """Return the elements of the windows of an axis, [..., outputs, kernel, ...]; 0 behind a window's end."""
    if windows.is_ragged:
        x = torch.cat([x, x.new_zeros([1 if i == axis else n for i, n in enumerate(x.shape)])], axis)
    if not windows.is_plain:
        x = x.index_select(axis, torch.from_numpy(windows.places.reshape(-1)))
    sizes = list(x.shape)
    axis %= len(sizes)
    return x.reshape([*sizes[:axis], *windows.places.shape, *sizes[axis + 1 :]])


# ---- ONNX ----


def adaptive_translations() -> dict[Any, Callable[..., Any]]:
    """Return adaptive pools and their ONNX writers, for `custom_translation_table` of `torch.onnx.export`."""
    aten = torch.ops.aten
    return {
        aten._adaptive_avg_pool2d.default: lambda self, output_size: _average(self, output_size, 2),
        aten._adaptive_avg_pool3d.default: lambda self, output_size: _average(self, output_size, 3),
        aten.adaptive_max_pool2d.default: lambda self, output_size: _largest(self, output_size, 2),
        aten.adaptive_max_pool3d.default: lambda self, output_size: _largest(self, output_size, 3),
    }


def _op() -> Any:
    import onnxscript  # a second of import time, that training does not pay

    return onnxscript.values.Opset("", 18)


def _integers(values: Sequence[int] | NDArray[np.int64]) -> Any:
    return _op().Constant(value_ints=[int(n) for n in values])


def _axes_and_windows(x: Any, output_size: Any, rank: int) -> tuple[list[int], list[AxisWindows]] | None:
    """Return the axes of a pool and their windows; None for the pool of whole planes."""
    axes = list(range(len(x.shape) - rank, len(x.shape)))
    sizes = [x.shape[axis] for axis in axes]
    outputs = output_sizes(output_size, sizes)
    if all(isinstance(out, int) and out == 1 for out in outputs):
        return None
    if not all(isinstance(n, int) for n in (*sizes, *outputs)):
        raise NotImplementedError("an adaptive pool of open sizes")
    return axes, [axis_windows(n, out) for n, out in zip(sizes, outputs, strict=True)]


def _average(x: Any, output_size: Any, rank: int) -> Any:
    """Write means: of whole planes, of windows of one size, or sums of gathered windows by their counts.

    Sums are formed along one axis after the other, the last one first.
    """
    op = _op()
    along = _axes_and_windows(x, output_size, rank)
    if along is None:
        return op.ReduceMean(x, _integers(range(-rank, 0)), keepdims=1)
    axes, windows = along
    begin = axes[0]
    if all(each.is_plain for each in windows):
        kernel = [each.kernel for each in windows]
        return _as_batch(x, begin == 1, lambda y: op.AveragePool(y, kernel_shape=kernel, strides=kernel))
    behind: list[int] = []
    for axis, each in reversed(list(zip(axes, windows, strict=True))):
        behind.insert(0, len(each.places))
        if each.is_whole:
            continue
        if each.is_ragged:
            pads = [0] * (2 * (begin + rank))
            pads[begin + rank + axis] = 1
            x = op.Pad(x, _integers(pads))
        x = x if each.is_plain else op.Gather(x, _integers(each.places.reshape(-1)), axis=axis)
        x = op.Reshape(x, _integers([*[0] * axis, *each.places.shape, *behind[1:]]))  # 0: as it is
        x = op.ReduceSum(x, _integers([axis + 1]), keepdims=0)
    return op.Div(x, op.CastLike(_integers_of(counts_of(windows)), x))


def counts_of(windows: Sequence[AxisWindows]) -> NDArray[np.int64]:
    """Return how many elements the windows have, [outputs, ...], with axes of size 1 where all are alike."""
    counts = np.ones([1] * len(windows), np.int64)
    for axis, each in enumerate(windows):
        shape = [1] * len(windows)
        shape[axis] = -1
        along = each.counts if each.is_ragged else each.counts[:1]
        counts = counts * along.reshape(shape)
    return counts


def _integers_of(array: NDArray[np.int64]) -> Any:
    import onnx_ir as ir

    return _op().Constant(value=ir.tensor(array))


def _largest(x: Any, output_size: Any, rank: int) -> Any:
    """Write maxima and their places in the plane: of whole planes, or by one MaxPool of gathered windows."""
    op = _op()
    along = _axes_and_windows(x, output_size, rank)
    if along is None:
        values = op.ReduceMax(x, _integers(range(-rank, 0)), keepdims=1)
        rows = op.Reshape(x, _integers([*[0] * (len(x.shape) - rank), *[1] * (rank - 1), -1]))
        return [values, op.ArgMax(rows, axis=-1, keepdims=1)]
    axes, windows = along
    sizes = [each.size for each in windows]
    for axis, each in zip(axes, windows, strict=True):
        x = x if each.is_plain else op.Gather(x, _integers(each.places_for_max.reshape(-1)), axis=axis)
    kernel = [each.kernel for each in windows]
    pooled = _as_batch(x, axes[0] == 1, lambda y: op.MaxPool(y, kernel_shape=kernel, strides=kernel))
    values, places = pooled
    gathered = [each.places.size for each in windows]
    places = op.Mod(places, _integers([prod(gathered)]))  # ONNX counts from the first plane of the batch
    index = _integers([0])
    for axis, each in enumerate(windows):
        along_axis = op.Mod(
            op.Div(places, _integers([prod(gathered[axis + 1 :])])), _integers([gathered[axis]])
        )
        along_axis = (
            along_axis if each.is_plain else op.Gather(_integers(each.places_for_max.reshape(-1)), along_axis)
        )
        index = op.Add(index, op.Mul(along_axis, _integers([prod(sizes[axis + 1 :])])))
    return [values, index]


def _as_batch(x: Any, alone: bool, pool: Callable[[Any], Any]) -> Any:
    """Pool `x`, which ONNX's pools read as a batch; `alone`: it is one sample without that axis."""
    if not alone:
        return pool(x)
    op, axis = _op(), _integers([0])
    pooled = pool(op.Unsqueeze(x, axis))
    several = isinstance(pooled, (tuple, list))
    return [op.Squeeze(y, axis) for y in pooled] if several else op.Squeeze(pooled, axis)
