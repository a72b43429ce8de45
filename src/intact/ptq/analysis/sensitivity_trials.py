"""Measures the outputs with some reads quantized; each trial runs from the first segment that it changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from numpy.typing import NDArray

from intact.graph import Model, PicklableModel, Session
from intact.job_pool import JobPool
from intact.processes import cached_property
from intact.progress import Progress
from intact.ptq.analysis.model_segments import ModelSegment, segments_of
from intact.ptq.analysis.partial_quantization import QuantizedReads, segment_session
from intact.ptq.data.parallel_runs import in_order
from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.measure.measured_outputs import outputs_to_measure, with_outputs
from intact.ptq.measure.output_errors import Errors, output_references, parts_of, relative_error, sum_errors
from intact.ptq.scope.quantization_targets import Read

Values = dict[str, NDArray]

NOTHING: frozenset[Read] = frozenset()

_PARTS = 2
"""Of the trials, for each worker: each part runs through the model once more."""


@dataclass(frozen=True)
class Trial:
    """Names reads that differ from a model that is float throughout, or quantized throughout.

    Attributes:
        changed: Which.
        alone: They alone are quantized; False: they alone are left in float.
    """

    changed: frozenset[Read]
    alone: bool = True


class Sweep:
    """Measures trials on hold-out samples, in passes along the segments of the model.

    At every segment the float model and the quantized one have come that far; the trials that change it start
    there. Memory: two models in ONNX Runtime, and what crosses one cut, twice for each run.

    Args:
        model: Float.
        grids: How its reads are quantized.
        runs: To measure on.
    """

    def __init__(self, model: Model, grids: QuantizedReads, runs: Sequence[HoldoutSample]) -> None:
        outputs_measured = outputs_to_measure(model)
        model = with_outputs(model, outputs_measured.names)
        self._grids, self._everything = grids, frozenset(grids.reads)
        self._segments = segments_of(model, grids.reads)
        self._runs, parts = runs, parts_of(model)
        self._sessions: dict[tuple[int, bool], Session] = {}
        self._alive = _alive(self._segments, outputs_measured.names)
        sessions = self._chain(NOTHING, 0)
        floats = in_order(lambda sample: self._run(sessions, 0, sample.feeds), runs)
        self._references = [
            output_references(outputs, parts, outputs_measured.unordered) for outputs in floats
        ]

    @cached_property
    def total(self) -> Errors:
        """The errors with everything quantized."""
        return self._measure_trial(Trial(self._everything), 0, [dict(sample.feeds) for sample in self._runs])

    @property
    def segments(self) -> int:
        """The number of segments that the model is cut into."""
        return len(self._segments)

    def measure(self, trials: Sequence[Trial], bar: Progress | None = None) -> list[float]:
        """Return the error of the outputs under each trial, see
        `intact.ptq.measure.output_errors.relative_error`.

        Args:
            trials: Any.
            bar: Advances by one for each.
        """
        starts = [self._first(trial) for trial in trials]
        errors: dict[int, float] = {}
        kinds = {trial.alone for trial in trials}
        for index, fronts in self._fronts(sorted(set(starts)), kinds):
            for number, trial in enumerate(trials):
                if starts[number] == index:
                    errors[number] = relative_error(self._measure_trial(trial, index, fronts[trial.alone]))
                    if bar is not None:
                        bar.advance()
        return [errors[number] for number in range(len(trials))]

    def _first(self, trial: Trial) -> int:
        touched = (i for i, segment in enumerate(self._segments) if trial.changed & segment.reads)
        return next(touched, len(self._segments) - 1)

    def _fronts(
        self, starts: Sequence[int], kinds: Collection[bool]
    ) -> Iterator[tuple[int, dict[bool, list[Values]]]]:
        """Yield (segment index, tensors in front of it by run), for the float model (True) and the quantized
        one.
        """
        fronts = {alone: [dict(sample.feeds) for sample in self._runs] for alone in kinds}
        for index in range(max(starts, default=-1) + 1):
            if index in starts:
                yield index, fronts
            for alone, front in fronts.items():
                on = NOTHING if alone else self._everything
                step = partial(self._step, self._session(index, on), index)
                fronts[alone] = list(in_order(step, front))

    def _measure_trial(self, trial: Trial, start: int, front: Sequence[Values]) -> Errors:
        on = trial.changed if trial.alone else self._everything - trial.changed
        sessions = self._chain(on, start)

        def errors_of_run(number: int) -> Errors:
            values = self._run(sessions, start, front[number])
            references = self._references[number]
            return Errors((name, reference.errors_of(values[name])) for name, reference in references.items())

        return sum_errors(in_order(errors_of_run, range(len(self._runs))))

    def _chain(self, on: frozenset[Read], start: int) -> list[Session]:
        """Return the sessions of all segments from `start` on."""
        return [self._session(index, on) for index in range(start, len(self._segments))]

    def _run(self, sessions: Sequence[Session], start: int, values: Mapping[str, NDArray]) -> Values:
        """Run all segments from `start` on, and return the outputs."""
        for index, session in enumerate(sessions, start):
            values = self._step(session, index, values)
        return dict(values)

    def _step(self, session: Session, index: int, values: Mapping[str, NDArray]) -> Values:
        """Run segment `index`, and return the tensors that are still needed behind it."""
        segment, alive = self._segments[index], self._alive[index]
        results = session.stream({name: values[name] for name in segment.inputs}, segment.outputs)
        return {n: a for n, a in (*values.items(), *results) if n in alive}

    def _session(self, index: int, on: frozenset[Read]) -> Session:
        """Return the session of a segment; those that are float or quantized throughout are cached."""
        segment = self._segments[index]
        here = on & segment.reads
        if here and here != segment.reads:
            return segment_session(segment, self._grids, here)
        key = index, bool(here)
        if key not in self._sessions:
            self._sessions[key] = segment_session(segment, self._grids, here)
        return self._sessions[key]


@dataclass
class SweepJobs:
    """Holds what the jobs of a sweep share.

    Attributes:
        model, grids, runs: As for `Sweep`.
    """

    model: PicklableModel
    grids: QuantizedReads
    runs: Sequence[HoldoutSample]

    @cached_property
    def sweep(self) -> Sweep:
        """The sensitivity sweep of this process; created lazily by the first job."""
        return Sweep(self.model.model, self.grids, self.runs)


def measure_trials(common: SweepJobs, trials: Sequence[Trial]) -> list[float]:
    """Run `Sweep.measure` in a worker process."""
    return common.sweep.measure(trials)


def measure_in_pool(
    pool: JobPool, jobs: SweepJobs, trials: Sequence[Trial], bar: Progress | None = None
) -> list[float]:
    """Run `Sweep.measure` in the processes of `pool`; neighbouring trials form one job.

    Args:
        pool: The processes.
        jobs: The model, its grids and hold-out samples, for all of them.
        trials: Reads that are quantized together.
        bar: Advances by one for each trial.
    Returns:
        The relative error of each trial, in their order.
    """
    size = max(1, -(-len(trials) // (_PARTS * pool.size)))
    parts = [trials[start : start + size] for start in range(0, len(trials), size)]
    all_errors: list[float] = []
    for errors in pool.map(measure_trials, jobs, parts):
        all_errors += errors
        if bar is not None:
            bar.advance(done=len(all_errors))
    return all_errors


def _alive(segments: Sequence[ModelSegment], outputs: Sequence[str]) -> list[frozenset[str]]:
    """Return the names of the tensors that are still needed behind each segment."""
    needed, alive = set(outputs), list[frozenset[str]]()
    for segment in reversed(segments):
        alive.append(frozenset(needed))
        needed |= set(segment.inputs)
    return alive[::-1]
