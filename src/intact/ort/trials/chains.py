"""`ModelFlow`: finds out which models of a program read the outputs of others.

A gate compares one model at a time, with inputs in float. Where a program feeds outputs of one model to
another, errors add up, and the last model may enlarge them. The first ones therefore need `CHAIN_DB` more.
Programs hand on whole tensors, or keep rows of them in a window, and may scale and shift them on the way:
rows are compared with a mean of 0 and a length of 1.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from intact.ort.trials.samples import RunSample, spread
from intact.processes import renew_in_child

CHAIN_DB = 10.0
"""Decibels above a policy's accuracy that outputs need which another model reads."""
_LEAST_WIDTH, _MOST_WIDTH = 16, 4096
"""Elements of a row: shorter ones may be alike by chance."""
_MOST_ROWS, _MOST_ELEMENTS = 512, 1 << 18
"""Rows of a width that are compared, and their elements: a model keeps some MiB of rows at most."""
_LEAST_MATCHES = 2
_CLOSENESS = 1e-4
"""The length of the difference of two rows that are the same but for rounding."""
_LEAST_DEVIATION = 1e-4
"""The deviation of a row, relative to its largest element, below which it is constant but for rounding."""

Rows = Mapping[int, NDArray[np.float32]]
"""Rows [rows, width] by width."""


class ModelFlow:
    """The rows that go into a model and come out of it, and the models that read them.

    Args:
        name: Of the model.
        note_reader: Called, in another thread, when a reader is found.

    Attributes:
        readers: Names of the models that read outputs of this one.
    """

    def __init__(self, name: str, note_reader: Callable[[], None]) -> None:
        self.name, self._note_reader = name, note_reader
        self.readers: set[str] = set()
        self._samples: Callable[[], Sequence[RunSample]] = tuple
        self._rows: tuple[Rows, Rows] | None = None

    def watch(self, samples: Callable[[], Sequence[RunSample]]) -> None:
        """Take rows from runs that are being watched, from now on."""
        self._samples, self._rows = samples, None
        _flows.add(self)

    def keep(self) -> None:
        """Keep the rows of the runs so far, and not the runs."""
        self._rows, self._samples = self.rows(), tuple

    def rows(self) -> tuple[Rows, Rows]:
        """Return the rows of inputs and of outputs."""
        if self._rows is not None:
            return self._rows
        samples = list(self._samples())
        inputs, outputs = (
            rows_of(array for sample in samples for array in getattr(sample, name).values())
            for name in ("inputs", "outputs")
        )
        return inputs, outputs

    def connect(self) -> None:
        """Look for readers of this model, and for models that this one reads."""
        inputs, outputs = self.rows()
        for other in _flows.others(self):
            other_inputs, other_outputs = other.rows()
            if have_common_rows(outputs, other_inputs):
                self._add(other.name)
            if have_common_rows(other_outputs, inputs):
                other._add(self.name)

    def _add(self, reader: str) -> None:
        if reader not in self.readers:
            self.readers.add(reader)
            self._note_reader()


class _Flows:
    """The models of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flows: WeakSet[ModelFlow] = WeakSet()
        renew_in_child(self)

    def after_fork(self) -> None:
        """Renew the lock."""
        self._lock = threading.Lock()

    def add(self, flow: ModelFlow) -> None:
        """Let others find a model."""
        with self._lock:
            self._flows.add(flow)

    def others(self, flow: ModelFlow) -> list[ModelFlow]:
        """Return all models but one."""
        with self._lock:
            return [other for other in self._flows if other is not flow]

    def clear(self) -> None:
        """Forget all models."""
        with self._lock:
            self._flows.clear()


_flows = _Flows()


def forget_flows() -> None:
    """Look for readers among models that are watched from now on alone."""
    _flows.clear()


def rows_of(arrays: Iterable[NDArray[Any]]) -> Rows:
    """Return the rows of float arrays, with a mean of 0 and a length of 1, a bounded number of each width.

    Rows lie along the last axis that has more than one element. Constant ones are left out.
    """
    parts: dict[int, list[NDArray[np.float32]]] = {}
    for array in arrays:
        if array.dtype.kind != "f":
            continue
        width = next((size for size in reversed(array.shape) if size > 1), 1)
        if _LEAST_WIDTH <= width <= _MOST_WIDTH:
            parts.setdefault(width, []).append(array.reshape(-1, width))
    rows = {width: _normalize(_spread_rows(arrays)) for width, arrays in parts.items()}
    return {width: values for width, values in rows.items() if len(values)}


def _spread_rows(arrays: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return rows of all arrays, as many of each."""
    count = min(_MOST_ROWS, _MOST_ELEMENTS // arrays[0].shape[1])
    share = max(1, count // len(arrays))
    rows = [array[spread(range(len(array)), share)].astype(np.float64) for array in arrays]
    return np.concatenate(rows)[:count]


def _normalize(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    rows = rows[np.isfinite(rows).all(axis=1)]
    centered = rows - rows.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(centered, axis=1)
    varied = lengths > _LEAST_DEVIATION * np.abs(rows).max(axis=1, initial=1e-30) * rows.shape[1] ** 0.5
    return np.asarray(centered[varied] / lengths[varied, None], np.float32)


def have_common_rows(outputs: Rows, inputs: Rows) -> bool:
    """Return whether several rows that came out of a model have gone into another one."""
    for width, sources in outputs.items():
        targets = inputs.get(width)
        if targets is None:
            continue
        # The squared distance of unit vectors is 2 - 2 * their product, which float32 has to about 1e-6.
        products = sources @ targets.T
        near = np.argwhere(products > 1 - 1e-5)
        matches = {
            int(target)
            for source, target in near[:: max(1, len(near) // _MOST_ROWS)]
            if np.linalg.norm(sources[source] - targets[target]) < _CLOSENESS
        }
        if len(matches) >= min(_LEAST_MATCHES, len(targets)):
            return True
    return False
