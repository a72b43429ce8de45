"""Counts shards of the calibration data in any process, and merges the results exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from intact.calib import Calibration, Range
from intact.graph import PicklableModel, Session
from intact.job_pool import JobPool
from intact.processes import cached_property
from intact.ptq.measure.holdout_samples import HoldoutSet
from intact.ptq.measure.tensor_counter import CountedRun, Counter, CountingRequest, Run, session_of
from intact.ptq.measure.top1_margin import Top1Margins

MOST_RUNS, MOST_BYTES = 32, 2**24
"""Of one part: enough to be worth the way, and few enough for many workers and for memory."""


@dataclass
class CollectedStatistics:
    """Accumulates statistics, hold-out samples and margins over runs.

    Attributes:
        calibration: The statistics of the counted tensors.
        channels: The channel ends of the requested tensors, by name.
        sample: The hold-out samples among the runs.
        margins: The top-1 margins of all runs.
        runs: The number of runs.
        batches: The number of batches.
    """

    calibration: Calibration = field(default_factory=Calibration)
    channels: dict[str, Range] = field(default_factory=dict)
    sample: HoldoutSet = field(default_factory=HoldoutSet)
    margins: Top1Margins = field(default_factory=Top1Margins)
    runs: int = 0
    batches: int = 0

    def add(self, ran: CountedRun) -> None:
        """Add a run whose tensors are counted."""
        sample = self.sample.offer(ran.feeds, ran.outputs, ran.inner, ran.digest, ran.counts)
        if sample is not None:
            sample.means, sample.squares, sample.moments = ran.means, ran.squares, ran.moments
        self.margins.add(ran.outputs)
        self.runs, self.batches = self.runs + 1, ran.number + 1

    def merge(self, later: CollectedStatistics) -> None:
        """Add the statistics of later runs."""
        _merge_by_name(self.calibration, later.calibration)
        _merge_by_name(self.channels, later.channels)
        self.sample.merge(later.sample)
        self.margins.merge(later.margins)
        self.runs, self.batches = self.runs + later.runs, later.batches


def _merge_by_name(mine: MutableMapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Merge statistics into those of the same name and kind, in place."""
    for name, stats in theirs.items():
        if name in mine:
            mine[name].merge(stats)
        else:
            mine[name] = deepcopy(stats)  # what arrives may be read-only


@dataclass
class PartCounter:
    """Holds what a worker needs to count a part of the data.

    Attributes:
        model: The float model.
        request: What to count.
        threads: The threads of ONNX Runtime, and of counting.
    """

    model: PicklableModel
    request: CountingRequest
    threads: int

    @cached_property
    def session(self) -> Session:
        """The session of the model, made where the first part arrives."""
        return session_of(self.model.model, self.request, self.threads)


def count_in_pool(pool: JobPool, counter: PartCounter, runs: Iterable[Run]) -> CollectedStatistics:
    """Count `runs` in the processes of `pool`; the result equals that of one process bit for bit.

    Args:
        pool: The processes.
        counter: The model, and the tensors to count.
        runs: Number of the batch and inputs of each run.
    """
    statistics = CollectedStatistics()
    for part in pool.map(count_part, counter, parts_of(runs)):
        statistics.merge(part)
    return statistics


def count_part(common: PartCounter, part: Sequence[Run]) -> CollectedStatistics:
    """Count the runs of one part, in a worker.

    Args:
        common: The model, and the tensors to count.
        part: Number of the batch and inputs of each run.
    """
    counter = Counter(common.model.model, common.session, common.request, common.threads)
    return count_runs(counter, map(counter.run, part))


def count_runs(counter: Counter, runs: Iterable[CountedRun]) -> CollectedStatistics:
    """Count `runs` with `counter` as they come."""
    statistics = CollectedStatistics(counter.calibration, counter.channels, counter.sample)
    for ran in runs:
        statistics.add(ran)
    counter.finish()
    return statistics


def parts_of(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """Yield `runs` in parts of bounded size, in order."""
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
