"""Calibration: the model runs in ONNX Runtime as written, and every wanted tensor is counted and let go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from numpy.typing import NDArray

from intact.calib import Calibration
from intact.errors import CalibrationError, IntactError
from intact.graph import Model, Session
from intact.progress import Progress
from intact.ptq.channels import ChannelEnds
from intact.ptq.data import Source, open_data
from intact.ptq.inputs import Feeds, Input, inputs_of
from intact.ptq.runs import Cutter
from intact.ptq.sample import Sample
from intact.ptq.smoothing import smoothable
from intact.ptq.state import State
from intact.ptq.workers import THREADS, in_order

_FIX = "calibration runs the float model: bring it to operators and an opset that ONNX Runtime has"


@dataclass
class Collected:
    """What one pass over the data gave.

    Attributes:
        calibration: The statistics of every wanted tensor.
        sample: Runs to measure choices on.
        channels: The ends of every channel of the tensors that were asked for.
    """

    calibration: Calibration
    sample: Sample
    channels: dict[str, ChannelEnds] = field(default_factory=dict)


def calibrated(state: State) -> State | None:
    """`state` with the statistics of its model, and the runs that were kept; None where it has statistics."""
    if state.calibration is not None:
        return None
    settings, inputs = state.settings, inputs_of(state.model)
    source = open_data(state.data, inputs, batch_size=settings.batch_size, num_batches=settings.num_batches)
    channels = {one.name: one.axis for one in smoothable(state)} if settings.equalization else {}
    found = collect(state.model, state.wanted, source, inputs, channels, progress=settings.progress)
    runs = tuple(found.sample.runs)
    return replace(state, calibration=found.calibration, runs=runs, channels=found.channels)


def collect(
    model: Model, wanted: Sequence[str], source: Source, inputs: Sequence[Input],
    channels: Mapping[str, int] | None = None, *, progress: bool = True,
) -> Collected:  # fmt: skip
    """Statistics of the tensors `wanted`, from one pass over `source`.

    Memory: the activations of two runs, each of one sample wherever the model allows it.

    Args:
        model: Float; neither changed nor copied.
        wanted: Names of float tensors of the main graph.
        source: The data.
        inputs: The model's.
        channels: The axis of those of `wanted` whose channels are looked at one by one.
        progress: Draw a progress bar on standard error.
    Raises:
        CalibrationError: A tensor holds NaN or infinities, or never had a value; names it and the batch.
        QuantValueError: The data do not fit the model.
    """
    outputs = [value.name for value in model.graph.outputs if value.name]
    fed = {one.name for one in inputs}
    extra = [name for name in wanted if name not in fed]
    session = Session(model, extra=extra, folded=True, threads=THREADS, fix=_FIX)
    collected = Collected(Calibration(), Sample())
    counter = _Counter(session, collected, wanted, outputs, channels or {}, source.name)
    cutter = Cutter(session, outputs, inputs)
    batches = runs = 0
    with Progress("calibrating", source.total, progress) as bar:
        for number, feeds, said in in_order(counter.run, cutter.runs(_counted(source.batches, bar))):
            collected.sample.offer(feeds, said)
            batches, runs = number + 1, runs + 1
    if cutter.stacks:
        collected.sample.stack()
    _require_all(collected.calibration, wanted)
    ordered = {name: collected.calibration[name] for name in wanted}
    collected.calibration = Calibration(ordered)
    prepared = {"images": source.prepared} if source.prepared else {}
    collected.calibration.record(source=source.name, batches=batches, samples=runs, **prepared)
    return collected


class _Counter:
    """Counts what runs make of the wanted tensors; several runs may be under way at once.

    Args:
        session: The float model, with the wanted tensors among its outputs.
        collected: What is counted into.
        wanted, outputs: Names of the tensors to count, and of those to hand on.
        channels: The axis of those whose channels are looked at.
        data: What the runs are made of, in words.
    """

    def __init__(
        self,
        session: Session,
        collected: Collected,
        wanted: Sequence[str],
        outputs: Sequence[str],
        channels: Mapping[str, int],
        data: str,
    ) -> None:
        self._data, self._channels = data, channels
        self._session, self._collected, self._outputs = session, collected, set(outputs)
        self._locks = {name: Lock() for name in wanted}

    def run(self, item: tuple[int, Feeds]) -> tuple[int, Feeds, dict[str, NDArray]]:
        """Count one run of batch `number`; also returns what the model puts out."""
        number, feeds = item
        kept = {}
        try:
            for name, array in feeds.items():
                self._count(name, array)
            for name, array in self._session.stream(feeds):
                self._count(name, array)
                if name in self._outputs:
                    kept[name] = array
        except IntactError as error:
            raise error.at(f"batch {number} of data ({self._data})") from error
        return number, feeds, kept

    def _count(self, name: str, array: NDArray) -> None:
        if (lock := self._locks.get(name)) is not None:
            axis = self._channels.get(name)
            ends = ChannelEnds.of(array, axis) if axis is not None and array.size else None
            with lock:  # counts do not depend on whose turn it is
                self._collected.calibration.collect(name, array, threads=THREADS)
                if ends is not None:
                    known = self._collected.channels.get(name)
                    self._collected.channels[name] = ends if known is None else known | ends


def _counted(batches: Iterable[Feeds], bar: Progress) -> Iterator[Feeds]:
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
