"""Runs a float model on calibration data, and keeps what ModelOpt's quantizers need of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact.errors import CalibrationError
from intact.graph import Model, Session
from intact.ptq.data.model_inputs import Feeds
from intact.ptq.modelopt.layer_search import InputStatistics
from intact.ptq.modelopt.quantizers import Quantizer, Reals

_ROWS = 512  # inputs of a layer that searches look at
_ROWS_OF_BATCH = 64


@dataclass
class ChannelStatistics:
    """Collects magnitudes of the channels of a tensor [..., K], and some of its rows.

    Attributes:
        keeps_rows: Whether rows are kept.
    """

    keeps_rows: bool
    _peaks: Reals | None = None
    _sums: NDArray[np.float64] | None = None
    _count: int = 0
    _rows: list[Reals] = field(default_factory=list)

    def add(self, x: NDArray) -> None:
        """Add the tensor of one batch."""
        rows = np.asarray(x.reshape(-1, x.shape[-1]), np.float32)
        magnitudes = np.abs(rows)
        peaks, sums = magnitudes.max(0), magnitudes.sum(0, dtype=np.float64)
        self._peaks = peaks if self._peaks is None else np.maximum(self._peaks, peaks)
        self._sums = sums if self._sums is None else self._sums + sums
        self._count += len(rows)
        row_count = sum(map(len, self._rows))
        if self.keeps_rows and row_count < _ROWS:
            self._rows.append(rows[:: max(1, len(rows) // _ROWS_OF_BATCH)][: _ROWS - row_count].copy())

    def result(self) -> InputStatistics | None:
        """Return what was collected; None where no batch had rows."""
        if self._peaks is None or self._sums is None:
            return None
        means = np.asarray(self._sums / max(self._count, 1), np.float32)
        rows = np.concatenate(self._rows) if self._rows else np.zeros((0, len(means)), np.float32)
        return InputStatistics(self._peaks, means, rows)


@dataclass
class RangeStatistics:
    """Collects the largest magnitude of a tensor, without its mean where a quantizer subtracts that.

    Attributes:
        quantizer: Says over which axes means are taken.
        prepare: What is done with the tensor first.
        mean: Of what was prepared, ones along the axes of the quantizer; None: nothing is subtracted.
        most: The largest magnitude of what is left.
        rank: Of the tensor; None: no data came.
        size: Of the last axis of what was prepared; None: no data came.
    """

    quantizer: Quantizer | None
    prepare: Callable[[NDArray], NDArray]
    mean: Reals | None = None
    most: float = 0.0
    rank: int | None = None
    size: int | None = None
    _sum: NDArray[np.float64] | None = None
    _ends: tuple[NDArray, NDArray] | None = None
    _count: int = 0

    @property
    def needs_mean(self) -> bool:
        """True where a first pass over the data finds the mean."""
        return self.quantizer is not None and bool(self.quantizer.bias_axes) and self.mean is None

    def add(self, x: NDArray) -> None:
        """Add the tensor of one batch: to the mean in the first pass, to the range in the second."""
        self.rank = x.ndim
        x = np.asarray(self.prepare(x), np.float32)
        self.size = x.shape[-1]
        if not self.needs_mean:
            rest = x if self.mean is None else x - self.mean
            self.most = max(self.most, float(np.abs(rest).max(initial=0)))
            return
        assert self.quantizer is not None
        axes = tuple(axis for axis in self.quantizer.bias_axes if -axis <= x.ndim)
        sums = x.sum(axes, keepdims=True, dtype=np.float64)
        self._sum = sums if self._sum is None else self._sum + sums
        self._count += x.size // max(sums.size, 1)
        low, high = x.min(axes, keepdims=True), x.max(axes, keepdims=True)
        if self._ends is not None:
            low, high = np.minimum(low, self._ends[0]), np.maximum(high, self._ends[1])
        self._ends = low, high

    def finish_mean(self) -> None:
        """End the first pass."""
        if self.quantizer is None or self._sum is None or self._ends is None:
            return
        mean = self._sum / max(self._count, 1)
        middle = (self._ends[0].astype(np.float64) + self._ends[1]) / 2
        self.mean = np.asarray(mean if self.quantizer.bias_method == "mean" else middle, np.float32)


def collect(
    model: Model, batches: Iterable[Feeds],
    wanted: Mapping[str, Sequence[ChannelStatistics | RangeStatistics]],
) -> None:  # fmt: skip
    """Run a model on all batches, and give each tensor to those that want it.

    Args:
        model: Float; it stays as it is.
        batches: Of its inputs.
        wanted: By the name of a tensor.
    Raises:
        CalibrationError: A tensor has NaN or infinities; names it.
        UnsupportedError: ONNX Runtime cannot run the model.
    """
    inputs = {value.name for value in model.graph.inputs}
    computed = [name for name in wanted if name not in inputs]
    session = Session(model, extra=computed, folded=True) if computed else None
    for feeds in batches:
        fed = ((name, feeds[name]) for name in wanted if name in feeds)
        for pairs in (fed, session.stream(feeds, computed) if session is not None else ()):
            for name, x in pairs:
                if x.size == 0:
                    continue
                if not np.isfinite(x).all():
                    raise CalibrationError(
                        f"tensor '{name}'", "NaN or infinity", "finite numbers",
                        "look for the layer that gives it",
                    )  # fmt: skip
                for statistics in wanted[name]:
                    statistics.add(x)
