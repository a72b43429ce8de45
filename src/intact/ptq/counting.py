"""One run of the float model, every wanted tensor counted and let go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from intact.calib import Calibration
from intact.errors import IntactError
from intact.graph import Model, Session
from intact.ptq.channels import ChannelEnds
from intact.ptq.inputs import Feeds, inputs_of
from intact.ptq.sample import INNER_BYTES

Run = tuple[int, Feeds]
"""(number of the batch, feeds)."""


@dataclass(frozen=True)
class Ran:
    """A run that was counted.

    Attributes:
        number: Of its batch.
        feeds, outputs: What went in and came out.
        inner: The wanted tensors, where they are small; None: they were let go.
    """

    number: int
    feeds: Feeds
    outputs: dict[str, NDArray]
    inner: dict[str, NDArray] | None


_ALONE, _TOGETHER = 2**15, 2**17
"""Bytes up to which a tensor waits for those of other runs, and of which so many are counted together."""

_FIX = "calibration runs the float model: bring it to operators and an opset that ONNX Runtime has"


def session_of(model: Model, wanted: Sequence[str], threads: int) -> Session:
    """`model` with the tensors `wanted` among its outputs."""
    fed = {one.name for one in inputs_of(model)}
    extra = [name for name in wanted if name not in fed]
    return Session(model, extra=extra, folded=True, threads=threads, fix=_FIX)


@dataclass(frozen=True)
class Asked:
    """What is counted.

    Attributes:
        wanted, outputs: Names of the tensors to count, and of those that errors are measured on.
        data: What the runs are made of, in words.
        channels: The axis of those of `wanted` whose channels are looked at one by one.
    """

    wanted: Sequence[str]
    outputs: Sequence[str]
    data: str
    channels: Mapping[str, int] = field(default_factory=dict)


@dataclass
class _Waiting:
    """Small tensors of one name, to be counted together: a call takes as long as thousands of values.

    Attributes:
        lock: Whose turn it is; counts do not depend on it.
        runs: The number of each one's batch, and the tensor.
        nbytes: Of all of them.
    """

    lock: Lock = field(default_factory=Lock)
    runs: list[tuple[int, NDArray]] = field(default_factory=list)
    nbytes: int = 0

    def add(self, number: int, array: NDArray) -> bool:
        """Let a tensor wait, which nobody changes meanwhile; whether it is time to count."""
        self.runs.append((number, array))
        self.nbytes += array.nbytes
        return self.nbytes >= _TOGETHER

    def take(self) -> list[tuple[int, NDArray]]:
        """What waits, which is then the caller's."""
        taken, self.runs, self.nbytes = self.runs, [], 0
        return taken


class Counter:
    """Counts what runs make of the wanted tensors; several runs may be under way at once.

    Args:
        session: The float model, with the wanted tensors among its outputs.
        asked: What is counted, and what is handed on.
        threads: Of counting one tensor.

    Attributes:
        calibration: What was counted; complete behind `finish`.
        channels: The ends of every channel of the tensors that were asked for.
    """

    def __init__(self, session: Session, asked: Asked, threads: int) -> None:
        self.calibration, self.channels = Calibration(), dict[str, ChannelEnds]()
        self._session, self._asked, self._threads = session, asked, threads
        self._outputs, self._waiting = set(asked.outputs), {name: _Waiting() for name in asked.wanted}

    def run(self, item: Run) -> Ran:
        """Count one run."""
        number, feeds = item
        kept: dict[str, NDArray] = {}
        inner: dict[str, NDArray] | None = {}
        room = INNER_BYTES
        for name, array in feeds.items():
            if name in self._waiting:  # data may come in one array again and again
                self._count(number, name, array.copy() if array.nbytes <= _ALONE else array)
        for name, array in self._made(number, feeds):
            self._count(number, name, array)
            room -= array.nbytes
            if room < 0:
                inner = None
            elif inner is not None and name in self._waiting:
                inner[name] = array
            if name in self._outputs:
                kept[name] = array
        return Ran(number, feeds, kept, inner)

    def _made(self, number: int, feeds: Feeds) -> Iterator[tuple[str, NDArray]]:
        """What the model makes of `feeds`; an error of its own names the batch."""
        try:
            yield from self._session.stream(feeds)
        except IntactError as error:
            raise self._in_batch(number, error) from error

    def finish(self) -> None:
        """Count what still waits."""
        for name, waiting in self._waiting.items():
            self._count_together(name, waiting.take())

    def _count(self, number: int, name: str, array: NDArray) -> None:
        if (waiting := self._waiting.get(name)) is None:
            return
        axis = self._asked.channels.get(name)
        ends = ChannelEnds.of(array, axis) if axis is not None and array.size else None
        with waiting.lock:
            if ends is not None:
                known = self.channels.get(name)
                self.channels[name] = ends if known is None else known | ends
            if array.nbytes > _ALONE:
                self._count_together(name, [(number, array)])
            elif waiting.add(number, array):
                self._count_together(name, waiting.take())

    def _count_together(self, name: str, runs: Sequence[tuple[int, NDArray]]) -> None:
        """Count tensors of several runs, whose values are all that matters; an error names the batch."""
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
        return error.at(f"batch {number} of data ({self._asked.data})")
