"""Calibration: the model runs in ONNX Runtime as written, and every wanted tensor is counted and let go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod

from intact.calib import Calibration
from intact.errors import CalibrationError
from intact.graph import Model, Node, Parcel, is_op, ops
from intact.pool import JobPool
from intact.progress import Progress
from intact.ptq.data.batch_splitting import Cutter
from intact.ptq.data.batches import Source, open_data
from intact.ptq.data.model_inputs import Feeds, Input, inputs_of
from intact.ptq.data.parallel_runs import THREADS, in_order
from intact.ptq.measure.channel_statistics import ChannelEnds
from intact.ptq.measure.holdout_samples import HELD_BYTES, HELD_LEAST, HELD_MOST, Held, Sample
from intact.ptq.measure.input_means import MeanSums, constant_shapes
from intact.ptq.measure.measured_outputs import measured_outputs
from intact.ptq.measure.moment_readers import narrow_layers, rows_of_run
from intact.ptq.measure.quantization_state import InputMeans, State
from intact.ptq.measure.sharded_calibration import PartCounter, counted, counted_by
from intact.ptq.measure.tensor_counter import Asked, Counter, session_of
from intact.ptq.measure.top1_margin import Margins
from intact.ptq.scope.quantization_targets import channel_axis
from intact.ptq.stages.smoothing import smoothable

_MEANS_BYTES = 2**26
"""Of the means of all held runs, at most: where there were more, the runs are made once more for them."""


@dataclass
class Collected:
    """What one pass over the data gave.

    Attributes:
        calibration: The statistics of every wanted tensor.
        sample: Runs to measure choices on.
        margins: Of the answers of all runs.
        channels: The ends of every channel of the tensors that were asked for.
    """

    calibration: Calibration
    sample: Sample
    margins: Margins
    channels: dict[str, ChannelEnds] = field(default_factory=dict)


def calibrated(state: State) -> State | None:
    """`state` with the statistics of its model, and the runs that were kept; None where it has statistics."""
    if state.calibration is not None:
        return None
    settings, inputs = state.settings, inputs_of(state.model)
    source = open_data(state.data, inputs, batch_size=settings.batch_size, num_batches=settings.num_batches)
    channels = {one.name: one.axis for one in smoothable(state)} if settings.equalization else {}
    layers = _corrected_layers(state)
    found = collect(
        state.model, state.wanted, source, inputs, channels, layers, _rounded_layers(state),
        progress=settings.progress, pool=settings.pool,
    )  # fmt: skip
    for name in (settings.ranges or {}).keys() & set(state.wanted):
        assert settings.ranges is not None
        found.calibration[name] = settings.ranges[name]
    runs = tuple(found.sample.runs)
    return replace(
        state, calibration=found.calibration, runs=runs, ran=state.model, margins=found.margins,
        channels=found.channels, input_means=_means_of(state.model, runs, layers),
    )  # fmt: skip


def _weight_readers(state: State) -> list[tuple[str, int]]:
    """(node name, input index) of those who read weights that are quantized."""
    return [r for target in state.targets if target.site.role == "weight" for r in target.readers]


def _corrected_layers(state: State) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights of layers whose biases may be corrected; none where their means were too many."""
    if not state.settings.bias_correction:
        return {}
    shapes = constant_shapes(state.model, _weight_readers(state))
    nodes = [node for node in state.model.graph if node.name in shapes]
    size = sum(_mean_size(node, shapes[node.name or ""]) for node in nodes)
    return shapes if size * 8 * HELD_MOST <= _MEANS_BYTES else {}


def _mean_size(node: Node, weight: tuple[int, ...]) -> int:
    """Elements of the mean of what a layer reads, by the shape of its weight."""
    if is_op(node, *ops.RECURRENT):
        return weight[-1]
    return prod(weight) // max(1, weight[channel_axis(node) or 0])


def _rounded_layers(state: State) -> dict[str, tuple[int, ...]]:
    """The same of layers whose weights are rounded with regard to each other in any case."""
    if not state.settings.rounding:
        return {}
    return narrow_layers(state.model, _weight_readers(state), _MEANS_BYTES / HELD_LEAST)


def _held_runs(source: Source) -> tuple[int, Iterator[Feeds]]:
    """How many runs will be held, as it seems from the first batch, and the batches.

    Where there are others, moments that were taken are not those that are wanted, and are taken again.
    """
    batches = iter(source.batches)
    first = next(batches, None)
    if first is None:
        return HELD_LEAST, iter(())
    samples = min((len(array) for array in first.values() if array.ndim), default=1)
    size = sum(array.nbytes for array in first.values()) // max(1, samples)
    most = max(HELD_LEAST, min(HELD_MOST, HELD_BYTES // max(1, size)))
    runs = most if source.total is None else min(most, source.total * max(1, samples))
    return max(2, runs), chain([first], batches)


def _means_of(model: Model, runs: tuple[Held, ...], layers: Collection[str]) -> InputMeans | None:
    """The means of `layers`; None where not all of `runs` have them."""
    sums = MeanSums()
    for held in runs:
        if held.means.keys() != set(layers):
            return None
        sums.add(held.means)
    return InputMeans(model, sums.means) if layers else None


def collect(
    model: Model,
    wanted: Sequence[str],
    source: Source,
    inputs: Sequence[Input],
    channels: Mapping[str, int] | None = None,
    layers: Mapping[str, tuple[int, ...]] | None = None,
    narrow: Mapping[str, tuple[int, ...]] | None = None,
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
        channels: The axis of those of `wanted` whose channels are looked at one by one.
        layers: Whose inputs' means held runs get: shapes of their weights, by name.
        narrow: Whose inputs' moments they get, likewise.
        progress: Draw a progress bar on standard error.
        pool: Counts parts of the data; None: this process.
    Raises:
        CalibrationError: A tensor holds NaN or infinities, or never had a value; names it and the batch.
        QuantValueError: The data do not fit the model.
    """
    outputs = measured_outputs(model).names
    held, batches = _held_runs(source)
    asked = Asked(wanted, outputs, source.name, channels or {}, layers or {}, narrow or {}, rows_of_run(held))
    session = session_of(model, asked, THREADS)
    cutter = Cutter(session, outputs, inputs)
    with Progress("calibrating", source.total, progress) as bar:
        runs = cutter.runs(_drawn(batches, bar))
        if pool is None:
            counter = Counter(model, session, asked, THREADS)
            found = counted(counter, in_order(counter.run, runs))
        else:
            found = counted_by(pool, PartCounter(Parcel(model), asked, pool.threads or THREADS), runs)
    if cutter.stacks:
        found.sample.stack()
    _require_all(found.calibration, wanted)
    calibration = Calibration({name: found.calibration[name] for name in wanted})
    prepared = {"images": source.prepared} if source.prepared else {}
    calibration.record(source=source.name, batches=found.batches, samples=found.runs, **prepared)
    return Collected(calibration, found.sample, found.margins, found.channels)


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
