"""Trials: the outputs with some reads quantized, each run from the first segment that it changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from numpy.typing import NDArray

from intact.graph import Model, Parcel, Session
from intact.pool import JobPool
from intact.progress import Progress
from intact.ptq.analysis.model_segments import ModelSegment, Read, segments_of
from intact.ptq.analysis.partial_quantization import QuantizedReads, variant
from intact.ptq.data.parallel_runs import in_order
from intact.ptq.measure.holdout_samples import Held
from intact.ptq.measure.measured_outputs import measured_outputs, with_outputs
from intact.ptq.measure.output_errors import Errors, parts_of, relative, summed, wanted_of

Values = dict[str, NDArray]

NOTHING: frozenset[Read] = frozenset()

_PARTS = 2
"""Of the trials, for each worker: each part runs through the model once more."""


@dataclass(frozen=True)
class Trial:
    """Reads that change, against a model in which nothing is quantized, or everything.

    Attributes:
        changed: Which.
        alone: They alone are quantized; False: they alone are left in float.
    """

    changed: frozenset[Read]
    alone: bool = True


class Sweep:
    """Measures trials on held runs, in passes along the segments of the model.

    At every segment the float model and the quantized one have come that far; the trials that change it start
    there. Memory: two models in ONNX Runtime, and what crosses one cut, twice for each run.

    Args:
        model: Float.
        grids: How its reads are quantized.
        runs: To measure on.
    """

    def __init__(self, model: Model, grids: QuantizedReads, runs: Sequence[Held]) -> None:
        measured = measured_outputs(model)
        model = with_outputs(model, measured.names)
        self._grids, self._everything = grids, frozenset(grids.reads)
        self._segments = segments_of(model, grids.reads)
        self._runs, parts = runs, parts_of(model)
        self._sessions: dict[tuple[int, bool], Session] = {}
        self._alive = _alive(self._segments, measured.names)
        sessions = self._chain(NOTHING, 0)
        floats = in_order(lambda held: self._run(sessions, 0, held.feeds), runs)
        self._wanted = [wanted_of(outputs, parts, measured.unordered) for outputs in floats]

    @cached_property
    def total(self) -> Errors:
        """Errors with everything quantized."""
        return self._lost(Trial(self._everything), 0, [dict(held.feeds) for held in self._runs])

    @property
    def segments(self) -> int:
        """Into how many the model is cut."""
        return len(self._segments)

    def measure(self, trials: Sequence[Trial], bar: Progress | None = None) -> list[float]:
        """Error of the outputs under each trial, see `intact.ptq.measure.output_errors.relative`.

        Args:
            trials: Any.
            bar: Advances by one for each.
        """
        starts = [self._first(trial) for trial in trials]
        found: dict[int, float] = {}
        kinds = {trial.alone for trial in trials}
        for index, fronts in self._fronts(sorted(set(starts)), kinds):
            for number, trial in enumerate(trials):
                if starts[number] == index:
                    found[number] = relative(self._lost(trial, index, fronts[trial.alone]))
                    if bar is not None:
                        bar.advance()
        return [found[number] for number in range(len(trials))]

    def _first(self, trial: Trial) -> int:
        touched = (i for i, segment in enumerate(self._segments) if trial.changed & segment.reads)
        return next(touched, len(self._segments) - 1)

    def _fronts(
        self, wanted: Sequence[int], kinds: Collection[bool]
    ) -> Iterator[tuple[int, dict[bool, list[Values]]]]:
        """(segment, the values in front of it by run) of the float model, True, and of the quantized one."""
        fronts = {alone: [dict(held.feeds) for held in self._runs] for alone in kinds}
        for index in range(max(wanted, default=-1) + 1):
            if index in wanted:
                yield index, fronts
            for alone, front in fronts.items():
                on = NOTHING if alone else self._everything
                step = partial(self._step, self._session(index, on), index)
                fronts[alone] = list(in_order(step, front))

    def _lost(self, trial: Trial, start: int, front: Sequence[Values]) -> Errors:
        on = trial.changed if trial.alone else self._everything - trial.changed
        sessions = self._chain(on, start)

        def lost(number: int) -> Errors:
            values = self._run(sessions, start, front[number])
            wanted = self._wanted[number]
            return Errors((name, one.errors_of(values[name])) for name, one in wanted.items())

        return summed(in_order(lost, range(len(self._runs))))

    def _chain(self, on: frozenset[Read], start: int) -> list[Session]:
        """Those of the segments from `start` on."""
        return [self._session(index, on) for index in range(start, len(self._segments))]

    def _run(self, sessions: Sequence[Session], start: int, values: Mapping[str, NDArray]) -> Values:
        """What is alive behind the last segment."""
        for index, session in enumerate(sessions, start):
            values = self._step(session, index, values)
        return dict(values)

    def _step(self, session: Session, index: int, values: Mapping[str, NDArray]) -> Values:
        """What is alive behind segment `index`."""
        segment, alive = self._segments[index], self._alive[index]
        made = session.stream({name: values[name] for name in segment.inputs}, segment.outputs)
        return {n: a for n, a in (*values.items(), *made) if n in alive}

    def _session(self, index: int, on: frozenset[Read]) -> Session:
        """Of a segment as it is in the float model or the quantized one: made once; of any other, anew."""
        segment = self._segments[index]
        here = on & segment.reads
        if here and here != segment.reads:
            return variant(segment, self._grids, here)
        key = index, bool(here)
        if key not in self._sessions:
            self._sessions[key] = variant(segment, self._grids, here)
        return self._sessions[key]


@dataclass
class SweepJobs:
    """What jobs of a sweep have in common.

    Attributes:
        model, grids, runs: As for `Sweep`.
    """

    model: Parcel
    grids: QuantizedReads
    runs: Sequence[Held]

    @cached_property
    def sweep(self) -> Sweep:
        """Made where the first job arrives."""
        return Sweep(self.model.model, self.grids, self.runs)


def measure_trials(common: SweepJobs, trials: Sequence[Trial]) -> list[float]:
    """What `Sweep.measure` finds."""
    return common.sweep.measure(trials)


def measured_by(
    pool: JobPool, jobs: SweepJobs, trials: Sequence[Trial], bar: Progress | None = None
) -> list[float]:
    """What `Sweep.measure` finds, each trial being independent of the others: neighbours go together."""
    size = max(1, -(-len(trials) // (_PARTS * pool.size)))
    parts = [trials[start : start + size] for start in range(0, len(trials), size)]
    found: list[float] = []
    for errors in pool.map(measure_trials, jobs, parts):
        found += errors
        if bar is not None:
            bar.advance(done=len(found))
    return found


def _alive(segments: Sequence[ModelSegment], outputs: Sequence[str]) -> list[frozenset[str]]:
    """The tensors that are still wanted behind each segment."""
    wanted, found = set(outputs), list[frozenset[str]]()
    for segment in reversed(segments):
        found.append(frozenset(wanted))
        wanted |= set(segment.inputs)
    return found[::-1]
