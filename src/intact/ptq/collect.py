"""Calibration: the model runs in ONNX Runtime as written, and every wanted tensor is counted and let go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from intact.calib import Calibration
from intact.errors import CalibrationError
from intact.graph import Model, Parcel, Session
from intact.pool import JobPool
from intact.progress import Progress
from intact.ptq.counting import Counter, Run, session_of
from intact.ptq.data import Source, open_data
from intact.ptq.inputs import Feeds, Input, inputs_of
from intact.ptq.runs import Cutter
from intact.ptq.sample import Sample
from intact.ptq.shards import Counted, PartCounter, counted_by
from intact.ptq.state import State
from intact.ptq.workers import THREADS, in_order


@dataclass
class Collected:
    """What one pass over the data gave.

    Attributes:
        calibration: The statistics of every wanted tensor.
        sample: Runs to measure choices on.
    """

    calibration: Calibration
    sample: Sample


def calibrated(state: State) -> State | None:
    """`state` with the statistics of its model, and the runs that were kept; None where it has statistics."""
    if state.calibration is not None:
        return None
    settings, inputs = state.settings, inputs_of(state.model)
    source = open_data(state.data, inputs, batch_size=settings.batch_size, num_batches=settings.num_batches)
    found = collect(state.model, state.wanted, source, inputs, progress=settings.progress, pool=settings.pool)
    return replace(state, calibration=found.calibration, runs=tuple(found.sample.runs))


def collect(
    model: Model,
    wanted: Sequence[str],
    source: Source,
    inputs: Sequence[Input],
    *,
    progress: bool = True,
    pool: JobPool | None = None,
) -> Collected:
    """Statistics of the tensors `wanted`, from one pass over `source`.

    Memory: the activations of two runs, each of one sample wherever the model allows it.

    Args:
        model: Float; neither changed nor copied.
        wanted: Names of float tensors of the main graph.
        source: The data.
        inputs: The model's.
        progress: Draw a progress bar on standard error.
        pool: Counts parts of the data; None: this process.
    Raises:
        CalibrationError: A tensor holds NaN or infinities, or never had a value; names it and the batch.
        QuantValueError: The data do not fit the model.
    """
    outputs = [value.name for value in model.graph.outputs if value.name]
    session = session_of(model, wanted, THREADS)
    cutter = Cutter(session, outputs, inputs)
    with Progress("calibrating", source.total, progress) as bar:
        runs = cutter.runs(_drawn(source.batches, bar))
        if pool is None:
            found = _count(session, wanted, outputs, source.name, runs)
        else:
            threads = pool.threads or THREADS
            parts = PartCounter(Parcel(model), wanted, outputs, source.name, threads)
            found = counted_by(pool, parts, runs)
    if cutter.stacks:
        found.sample.stack()
    _require_all(found.calibration, wanted)
    calibration = Calibration({name: found.calibration[name] for name in wanted})
    prepared = {"images": source.prepared} if source.prepared else {}
    calibration.record(source=source.name, batches=found.batches, samples=found.runs, **prepared)
    return Collected(calibration, found.sample)


def _count(
    session: Session, wanted: Sequence[str], outputs: Sequence[str], data: str, runs: Iterable[Run]
) -> Counted:
    """What `runs` give, counted in this process, two at a time."""
    found = Counted()
    counter = Counter(session, found.calibration, wanted, outputs, data, THREADS)
    for number, feeds, said in in_order(counter.run, runs):
        found.add(number, feeds, said)
    return found


def _drawn(batches: Iterable[Feeds], bar: Progress) -> Iterator[Feeds]:
    for done, feeds in enumerate(batches):
        bar.advance(done=done)
        yield feeds


def _require_all(calibration: Calibration, wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in calibration or not calibration[name].count.any()]
    if missing:
        shown = ", ".join(f"'{name}'" for name in missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise CalibrationError(
            f"tensor {shown}",
            f"no value in any batch ({len(missing)} of {len(wanted)} tensors)",
            "data that reach every tensor which is to be quantized",
            "give data that run through these parts of the model, or exclude their layers",
        )
