"""Counts the tensors of one run of the float model into histograms, and frees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from intact.calib import BINS, Calibration, Histogram, Range
from intact.errors import IntactError
from intact.graph import Model, Session
from intact.ptq.data.model_inputs import Feeds, inputs_of
from intact.ptq.measure.holdout_samples import HALVES_MOST, INNER_BYTES, HoldoutSet, digest_of, is_large
from intact.ptq.measure.input_means import mean_readers
from intact.ptq.measure.layer_inputs import Readers
from intact.ptq.measure.moment_readers import moment_readers
from intact.ptq.measure.running_sums import Moments, RunningSums, channel_squares

Run = tuple[int, Feeds]
"""(number of the batch, feeds)."""


@dataclass(frozen=True)
class CountedRun:
    """Holds the results of one run whose tensors were counted.

    Attributes:
        number: The number of its batch.
        feeds, outputs: The arrays that went in and came out, by name.
        inner: The counted tensors by name, where they are small; else None.
        digest: The hash of the feeds.
        means, squares, moments, counts: As in `intact.ptq.measure.holdout_samples.HoldoutSample`; empty for
            other runs; all but the counts also where `inner` makes them redundant.
    """

    number: int
    feeds: Feeds
    outputs: dict[str, NDArray]
    inner: dict[str, NDArray] | None
    digest: bytes = b""
    means: dict[str, RunningSums] = field(default_factory=dict)
    squares: dict[str, RunningSums] = field(default_factory=dict)
    moments: dict[tuple[str, int], Moments] = field(default_factory=dict)
    counts: dict[str, Histogram] | None = None


_ALONE, _TOGETHER = 2**15, 2**17
"""Bytes up to which a tensor waits for those of other runs, and of which so many are counted together."""

_COUNTS_BYTES = 2**27
"""Bytes of the histograms of single runs, at most; larger ones are counted again where they are needed."""

_FIX = "calibration runs the float model: bring it to operators and an opset that ONNX Runtime has"


def session_of(model: Model, request: CountingRequest, threads: int) -> Session:
    """Return a session of `model` with every requested tensor among its outputs.

    Args:
        model: Float; not changed.
        request: Names of the tensors.
        threads: Of ONNX Runtime.
    """
    fed = {model_input.name for model_input in inputs_of(model)}
    names = dict.fromkeys(
        [
            *request.tensors,
            *request.outputs,
            *mean_readers(model, request.layers),
            *request.moment_readers(model),
        ]
    )
    extra = [name for name in names if name not in fed]
    return Session(model, extra=extra, folded=True, threads=threads, fix=_FIX)


@dataclass(frozen=True)
class CountingRequest:
    """Names the tensors to count and what else to measure.

    Attributes:
        tensors, outputs: Names of the tensors to count, and of those that errors are measured on.
        data: A description of the data, for errors.
        channels: The channel axis of those of `tensors` whose channel ends are needed.
        layers: The weight shapes, by name, of layers whose mean inputs are needed.
        narrow: The weight shapes, by name, of layers whose input moments are needed.
        rows: The input rows per run that moments use, see `intact.ptq.measure.moment_readers.rows_of_run`.
    """

    tensors: Sequence[str]
    outputs: Sequence[str]
    data: str
    channels: Mapping[str, int] = field(default_factory=dict)
    layers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    narrow: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    rows: int = 1

    def moment_readers(self, model: Model) -> Readers[Moments]:
        """Return the readers of moments for the `narrow` layers."""
        return moment_readers(model, self.narrow, self.rows)


@dataclass
class _PendingTensors:
    """Collects small tensors of one name that are counted together, because each call costs thousands of
    values.

    Attributes:
        lock: Whose turn it is; counts do not depend on it.
        runs: The number of each one's batch, and the tensor.
        nbytes: Of all of them.
    """

    lock: Lock = field(default_factory=Lock)
    runs: list[tuple[int, NDArray]] = field(default_factory=list)
    nbytes: int = 0

    def add(self, number: int, array: NDArray) -> bool:
        """Add a tensor that nobody changes meanwhile; return whether it is time to count."""
        self.runs.append((number, array))
        self.nbytes += array.nbytes
        return self.nbytes >= _TOGETHER

    def take(self) -> list[tuple[int, NDArray]]:
        """Return the pending tensors and forget them."""
        pending, self.runs, self.nbytes = self.runs, [], 0
        return pending


class Counter:
    """Counts the requested tensors of runs; several runs may be under way at once.

    Args:
        model: Float.
        session: Of the model, see `session_of`.
        request: What is counted, and what is handed on.
        threads: Of counting one tensor.
        is_stacking: Returns whether small hold-out samples will be stacked: moments of theirs would be lost.

    Attributes:
        calibration: What was counted; complete behind `finish`.
        channels: The ends of every channel of the tensors that were asked for.
        sample: Where runs are held.
    """

    def __init__(
        self, model: Model, session: Session, request: CountingRequest, threads: int,
        is_stacking: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self.sample, self._means = HoldoutSet(), mean_readers(model, request.layers)
        self._is_stacking = is_stacking
        self._moments = request.moment_readers(model)
        self.calibration, self.channels = Calibration(), dict[str, Range]()
        self._session, self._request, self._threads = session, request, threads
        self._keeps_counts = len(request.tensors) * HALVES_MOST * BINS * 16 <= _COUNTS_BYTES
        self._outputs, self._pending = (
            set(request.outputs),
            {name: _PendingTensors() for name in request.tensors},
        )

    def run(self, item: Run) -> CountedRun:
        """Count one run."""
        number, feeds = item
        outputs: dict[str, NDArray] = {}
        inner: dict[str, NDArray] | None = {}
        room, ran = INNER_BYTES, CountedRun(number, feeds, outputs, None, digest_of(feeds))
        may_hold_out = self.sample.may_keep(ran.digest)
        if self._keeps_counts and may_hold_out and self.sample.may_be_counted(feeds, ran.digest):
            ran = replace(ran, counts={})
        late: dict[str, NDArray] = {}  # to be looked at where inner tensors are let go
        for name, array in feeds.items():
            if may_hold_out:
                late[name] = array
            if name in self._pending:  # data may come in one array again and again
                self._count(ran, name, array.copy() if array.nbytes <= _ALONE else array)
        for name, array in self._stream_outputs(number, feeds):
            self._count(ran, name, array)
            if may_hold_out:
                late[name] = array
            if name in self._pending or name in self._outputs:
                room -= array.nbytes
            if room < 0:
                inner = None
                self._measure_channels(late, ran)
                late.clear()
            elif inner is not None and name in self._pending:
                inner[name] = array
            if name in self._outputs:
                outputs[name] = array
        return replace(ran, inner=inner)

    def _measure_channels(self, arrays: Mapping[str, NDArray], ran: CountedRun) -> None:
        """Measure means, moments and squares that hold-out samples are asked for."""
        wants_moments = is_large(ran.feeds) or not self._is_stacking()
        for name, array in arrays.items():
            if array.size:
                ran.means.update((layer, mean(array)) for layer, mean in self._means.get(name, {}).items())
                moments = self._moments.get(name, {}).items() if wants_moments else ()
                ran.moments.update(((layer, self._request.rows), take(array)) for layer, take in moments)
                if (axis := self._request.channels.get(name)) is not None:
                    ran.squares[name] = channel_squares(array, axis)

    def _stream_outputs(self, number: int, feeds: Feeds) -> Iterator[tuple[str, NDArray]]:
        """Yield the outputs of the model for `feeds`; errors name the batch."""
        try:
            yield from self._session.stream(feeds)
        except IntactError as error:
            raise self._in_batch(number, error) from error

    def finish(self) -> None:
        """Count the pending tensors."""
        for name, pending in self._pending.items():
            self._count_together(name, pending.take())

    def _count(self, ran: CountedRun, name: str, array: NDArray) -> None:
        """Count a tensor of a run; small ones wait, unless the run has counts of its own."""
        if (pending := self._pending.get(name)) is None:
            return
        axis = self._request.channels.get(name)
        with pending.lock:
            if axis is not None:
                ends = self.channels.setdefault(name, Range(axis, nonfinite="count"))
                ends.collect(array, threads=self._threads)
            if ran.counts is not None:
                try:
                    part = self.calibration.collect_apart(name, array, threads=self._threads)
                except IntactError as error:
                    raise self._in_batch(ran.number, error) from error
                ran.counts[name] = part
            elif array.nbytes > _ALONE:
                self._count_together(name, [(ran.number, array)])
            elif pending.add(ran.number, array):
                self._count_together(name, pending.take())

    def _count_together(self, name: str, runs: Sequence[tuple[int, NDArray]]) -> None:
        """Count tensors of several runs in one call; an error names the batch."""
        if len(runs) > 1 and len({array.dtype for _, array in runs}) == 1:
            try:
                values = np.concatenate([array.reshape(-1) for _, array in runs])
                self.calibration.collect(name, values, threads=self._threads)
                return
            except IntactError:  # nothing of them is counted: which one is it?
                pass
        for number, array in runs:
            try:
                self.calibration.collect(name, array, threads=self._threads)
            except IntactError as error:
                raise self._in_batch(number, error) from error

    def _in_batch(self, number: int, error: IntactError) -> IntactError:
        return error.at(f"batch {number} of data ({self._request.data})")
