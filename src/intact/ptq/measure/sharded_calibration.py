"""Calibration in parts: runs are counted in any process, and what was counted is added up exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property

from intact.calib import Calibration
from intact.graph import Parcel, Session
from intact.pool import JobPool
from intact.ptq.measure.channel_statistics import ChannelEnds
from intact.ptq.measure.holdout_samples import Sample
from intact.ptq.measure.tensor_counter import Asked, Counter, Ran, Run, session_of
from intact.ptq.measure.top1_margin import Margins

MOST_RUNS, MOST_BYTES = 32, 2**24
"""Of one part: enough to be worth the way, and few enough for many workers and for memory."""


@dataclass
class Counted:
    """What runs gave.

    Attributes:
        calibration: The statistics.
        channels: The ends of every channel of the tensors that were asked for.
        sample: Those of the runs to measure choices on.
        margins: Of the answers of all runs.
        runs: How many there were.
        batches: The number of the last one's batch, and one more.
    """

    calibration: Calibration = field(default_factory=Calibration)
    channels: dict[str, ChannelEnds] = field(default_factory=dict)
    sample: Sample = field(default_factory=Sample)
    margins: Margins = field(default_factory=Margins)
    runs: int = 0
    batches: int = 0

    def add(self, ran: Ran) -> None:
        """Note a run, whose tensors are counted."""
        if (held := self.sample.offer(ran.feeds, ran.outputs, ran.inner, ran.digest)) is not None:
            held.means, held.squares, held.moments = ran.means, ran.squares, ran.moments
        self.margins.add(ran.outputs)
        self.runs, self.batches = self.runs + 1, ran.number + 1

    def merge(self, later: Counted) -> None:
        """Add what later runs gave."""
        for name, stats in later.calibration.items():
            if name in self.calibration:
                self.calibration[name].merge(stats)  # type: ignore[arg-type]  # of one kind
            else:
                self.calibration[name] = deepcopy(stats)  # what arrives may be read-only
        for name, ends in later.channels.items():
            self.channels[name] = self.channels[name] | ends if name in self.channels else ends
        self.sample.merge(later.sample)
        self.margins.merge(later.margins)
        self.runs, self.batches = self.runs + later.runs, later.batches


@dataclass
class PartCounter:
    """Counts parts of the data, where it is sent.

    Attributes:
        model: Float.
        asked: What is counted.
        threads: Of ONNX Runtime, and of counting.
    """

    model: Parcel
    asked: Asked
    threads: int

    @cached_property
    def session(self) -> Session:
        """The model, made where the first part arrives."""
        return session_of(self.model.model, self.asked, self.threads)


def counted_by(pool: JobPool, counter: PartCounter, runs: Iterable[Run]) -> Counted:
    """What `runs` give, counted by `pool`: bit for bit what one process counts."""
    found = Counted()
    for part in pool.map(count_part, counter, parts_of(runs)):
        found.merge(part)
    return found


def count_part(common: PartCounter, part: Sequence[Run]) -> Counted:
    """What the runs of `part` give."""
    counter = Counter(common.model.model, common.session, common.asked, common.threads)
    return counted(counter, map(counter.run, part))


def counted(counter: Counter, runs: Iterable[Ran]) -> Counted:
    """What `counter` found in runs, as these come."""
    found = Counted(counter.calibration, counter.channels, counter.sample)
    for ran in runs:
        found.add(ran)
    counter.finish()
    return found


def parts_of(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """`runs` in parts, in order."""
    part: list[Run] = []
    size = 0
    for number, feeds in runs:
        part.append((number, feeds))
        size += sum(array.nbytes for array in feeds.values())
        if len(part) == MOST_RUNS or size >= MOST_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
