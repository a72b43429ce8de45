"""Observes every quantized tensor channel by channel, in one pass over runs of the float model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact import kernels
from intact.calib import Ends
from intact.graph import Model, Session, Value, ops
from intact.ptq.data.model_inputs import Feeds
from intact.ptq.data.parallel_runs import THREADS, in_order
from intact.ptq.scope.quantization_ranges import grid_of
from intact.spec import QuantSpec

_LOW, _HIGH, _ERROR, _SQUARE = range(4)


@dataclass
class TensorObservation:
    """Accumulates values, rounding errors and peaks of one tensor over several runs.

    Attributes:
        spec, ends: The grid and the range of the tensor.
        axis: The channel axis; None for a tensor without channels.
        rows: The smallest value, the largest one, the sum of squared rounding errors and the sum of squares
            of each channel, float64 [4, channels]. It has one channel if their number changed between runs.
        count, beyond: The number of values, and of those that saturate.
        peaks: The largest magnitude of each sample, or of each run if the first axis counts no samples.
    """

    spec: QuantSpec
    ends: Ends
    axis: int | None
    rows: NDArray[np.float64] = field(default_factory=lambda: np.zeros((4, 0)))
    count: int = 0
    beyond: int = 0
    peaks: list[float] = field(default_factory=list)

    @property
    def channels(self) -> int:
        """The number of channels; 1 for a tensor without channels."""
        return int(self.rows.shape[1])

    @property
    def low(self) -> float:
        """The smallest value."""
        return float(self.rows[_LOW].min(initial=0))

    @property
    def high(self) -> float:
        """The largest value."""
        return float(self.rows[_HIGH].max(initial=0))

    @property
    def reach(self) -> NDArray[np.float64]:
        """The largest magnitude of each channel, float64 [channels]."""
        return np.asarray(np.maximum(-self.rows[_LOW], self.rows[_HIGH]))

    @property
    def errors(self) -> NDArray[np.float64]:
        """The sum of squared rounding errors of each channel, float64 [channels]."""
        return np.asarray(self.rows[_ERROR])

    @property
    def relative_error(self) -> float:
        """The squared error of the tensor relative to its square."""
        square = float(self.rows[_SQUARE].sum())
        return float(self.errors.sum()) / square if square > 0 else 0.0

    @property
    def representable(self) -> tuple[float, float]:
        """The smallest and largest real on the grid, with half a step beyond both."""
        scale, zero_point = grid_of(self.spec, self.ends)
        step, zero = float(scale.max()), int(zero_point.max())
        half = 0.0 if self.spec.format.is_float else 0.5
        return (self.spec.qmin - zero - half) * step, (self.spec.qmax - zero + half) * step

    def add(self, x: NDArray, samples: int) -> None:
        """Add the values of one run."""
        if not x.size:
            return
        axis = None if self.axis is None or x.ndim < 2 else self.axis % x.ndim
        real = x.astype(np.float64)
        rounded = kernels.fake_quantize(x, *grid_of(self.spec, self.ends), self.spec)
        by_channel, errors = _channel_rows(real, axis), _channel_rows(rounded.astype(np.float64) - real, axis)
        rows = np.stack([by_channel.min(1), by_channel.max(1), (errors**2).sum(1), (by_channel**2).sum(1)])
        self.rows = _merge_rows(self.rows, rows) if self.count else rows
        low, high = self.representable
        self.count += x.size
        self.beyond += int(((real < low) | (real > high)).sum())
        alone = x.ndim > 1 and x.shape[0] == samples > 0
        self.peaks += np.abs(real).reshape(samples if alone else 1, -1).max(1).tolist()


def _channel_rows(x: NDArray[np.float64], axis: int | None) -> NDArray[np.float64]:
    """Return `x` as float64 [channels, values]; one row where `axis` is None."""
    return x.reshape(1, -1) if axis is None else np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)


def _merge_rows(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Merge the rows of two runs; a differing number of channels collapses both into one channel."""
    if a.shape != b.shape:
        a, b = _merge_channels(a), _merge_channels(b)
    return np.stack([np.minimum(a[0], b[0]), np.maximum(a[1], b[1]), a[2] + b[2], a[3] + b[3]])


def _merge_channels(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([[rows[_LOW].min()], [rows[_HIGH].max()], [rows[_ERROR].sum()], [rows[_SQUARE].sum()]])


def observe(
    model: Model, grids: Mapping[str, tuple[QuantSpec, Ends]], runs: Iterable[Feeds]
) -> dict[str, TensorObservation]:
    """Observe every tensor of `grids` over `runs`.

    Args:
        model: Float; not changed.
        grids: Grid and range by tensor; tensors of the main graph.
        runs: Feeds of the model.
    Raises:
        UnsupportedError: ONNX Runtime cannot run the model on them.
    """
    inner = (value for node in model.graph for value in node.outputs)
    values = {value.name or "": value for value in (*model.graph.inputs, *inner)}
    observations = {
        name: TensorObservation(*grid, channel_axis_of(values[name])) for name, grid in grids.items()
    }
    fed = {value.name for value in model.graph.inputs}
    names = [name for name in grids if name not in fed]
    session = Session(model, extra=names, folded=True, threads=THREADS)

    def tensors(feeds: Feeds) -> tuple[int, Sequence[tuple[str, NDArray]]]:
        first = next(iter(feeds.values()))
        own = [(name, feeds[name]) for name in grids if name in feeds]
        return (first.shape[0] if first.ndim else 1), [*own, *session.stream(feeds, names)]

    for samples, arrays in in_order(tensors, runs):
        for name, array in arrays:
            observations[name].add(array, samples)
    return observations


def channel_axis_of(value: Value) -> int | None:
    """Return the channel axis of an activation, judged by the nodes that produce and read it.

    Behind and in front of convolutions the second; of matrix products the last; of others the second of
    four or more, and the last of fewer.
    """
    neighbours = [
        node for node in (value.producer(), *(use.node for use in value.uses())) if node is not None
    ]
    if any(ops.is_kind(node, "convolution") for node in neighbours):
        return 1
    if any(ops.is_kind(node, "product") for node in neighbours):
        return -1
    rank = 0 if value.shape is None else len(value.shape)
    return 1 if rank >= 4 else -1
