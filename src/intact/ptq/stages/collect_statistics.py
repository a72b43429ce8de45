"""Calibration: runs the float model in ONNX Runtime, and counts the requested tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod

from intact.calib import Calibration, Range
from intact.errors import CalibrationError
from intact.graph import Model, Node, PicklableModel, is_op, ops
from intact.job_pool import JobPool
from intact.progress import Progress
from intact.ptq.data.batch_splitting import BatchSplitter
from intact.ptq.data.batches import Source, open_data
from intact.ptq.data.model_inputs import Feeds, Input, inputs_of
from intact.ptq.data.parallel_runs import THREADS, in_order
from intact.ptq.measure.holdout_samples import (
    HOLDOUT_BYTES,
    HOLDOUT_LEAST,
    HOLDOUT_MOST,
    HoldoutSample,
    HoldoutSet,
)
from intact.ptq.measure.input_means import constant_shapes
from intact.ptq.measure.measured_outputs import outputs_to_measure
from intact.ptq.measure.moment_readers import narrow_layers, rows_of_run
from intact.ptq.measure.quantization_state import InputMeans, State
from intact.ptq.measure.running_sums import RunningSums, add_by_name, means_of
from intact.ptq.measure.sharded_calibration import PartCounter, count_in_pool, count_runs
from intact.ptq.measure.tensor_counter import Counter, CountingRequest, session_of
from intact.ptq.measure.top1_margin import Top1Margins
from intact.ptq.scope.quantization_targets import channel_axis
from intact.ptq.stages.smoothing import smoothable

_MEANS_BYTES = 2**26
"""Bytes of the means of all hold-out samples, at most. Larger means are computed in a later pass instead."""


@dataclass
class CollectedData:
    """Holds the results of one pass over the data.

    Attributes:
        calibration: The statistics of every requested tensor.
        sample: The hold-out samples.
        margins: The top-1 margins of all runs.
        channels: The channel ends of the requested tensors, by name.
    """

    calibration: Calibration
    sample: HoldoutSet
    margins: Top1Margins
    channels: dict[str, Range] = field(default_factory=dict)


def with_statistics(state: State) -> State | None:
    """Collect the statistics of the model and the hold-out samples; return None where statistics exist."""
    if state.calibration is not None:
        return None
    settings, inputs = state.settings, inputs_of(state.model)
    source = open_data(state.data, inputs, batch_size=settings.batch_size, num_batches=settings.num_batches)
    channels = {tensor.name: tensor.axis for tensor in smoothable(state)} if settings.equalization else {}
    layers = _layers_to_correct(state)
    collected = collect(
        state.model, state.tensors_to_calibrate, source, inputs, channels, layers, _layers_to_round(state),
        progress=settings.progress, pool=settings.pool,
    )  # fmt: skip
    for name in (settings.ranges or {}).keys() & set(state.tensors_to_calibrate):
        assert settings.ranges is not None
        collected.calibration[name] = settings.ranges[name]
    runs = tuple(collected.sample.runs)
    return replace(
        state, calibration=collected.calibration, runs=runs, traced_model=state.model,
        margins=collected.margins,
        channels=collected.channels, input_means=_means_of(state.model, runs, layers),
    )  # fmt: skip


def _weight_readers(state: State) -> list[tuple[str, int]]:
    """Return (node name, input index) of the readers of quantized weights."""
    return [r for target in state.targets if target.site.role == "weight" for r in target.readers]


def _layers_to_correct(state: State) -> dict[str, tuple[int, ...]]:
    """Return weight shapes of the layers whose biases may be corrected; none if their means need too much
    memory.
    """
    if not state.settings.bias_correction:
        return {}
    shapes = constant_shapes(state.model, _weight_readers(state))
    nodes = [node for node in state.model.graph if node.name in shapes]
    size = sum(_mean_size(node, shapes[node.name or ""]) for node in nodes)
    return shapes if size * 8 * HOLDOUT_MOST <= _MEANS_BYTES else {}


def _mean_size(node: Node, weight: tuple[int, ...]) -> int:
    """Return the elements of a layer's mean input, by the shape of its weight."""
    if is_op(node, *ops.RECURRENT):
        return weight[-1]
    return prod(weight) // max(1, weight[channel_axis(node) or 0])


def _layers_to_round(state: State) -> dict[str, tuple[int, ...]]:
    """Return the same for layers whose weights are always rounded together."""
    if not state.settings.rounding:
        return {}
    return narrow_layers(state.model, _weight_readers(state), _MEANS_BYTES / HOLDOUT_LEAST)


def _estimate_holdout(source: Source) -> tuple[int, Iterator[Feeds]]:
    """Estimate the number of hold-out samples from the first batch; return it and the batches.

    Where there are others, moments that were taken are not those that are wanted, and are taken again.
    """
    batches = iter(source.batches)
    first = next(batches, None)
    if first is None:
        return HOLDOUT_LEAST, iter(())
    samples = min((len(array) for array in first.values() if array.ndim), default=1)
    size = sum(array.nbytes for array in first.values()) // max(1, samples)
    most = max(HOLDOUT_LEAST, min(HOLDOUT_MOST, HOLDOUT_BYTES // max(1, size)))
    runs = most if source.total is None else min(most, source.total * max(1, samples))
    return max(2, runs), chain([first], batches)


def _means_of(model: Model, runs: tuple[HoldoutSample, ...], layers: Collection[str]) -> InputMeans | None:
    """Return the means of `layers`; None where not all of `runs` have them."""
    sums = dict[str, RunningSums]()
    for sample in runs:
        if sample.means.keys() != set(layers):
            return None
        add_by_name(sums, sample.means)
    return InputMeans(model, means_of(sums)) if layers else None


def collect(
    model: Model,
    tensors: Sequence[str],
    source: Source,
    inputs: Sequence[Input],
    channels: Mapping[str, int] | None = None,
    layers: Mapping[str, tuple[int, ...]] | None = None,
    narrow: Mapping[str, tuple[int, ...]] | None = None,
    *,
    progress: bool = True,
    pool: JobPool | None = None,
) -> CollectedData:
    """Collect statistics of `tensors` in one pass over `source`.

    Memory: the activations of two runs, each of one sample wherever the model allows it.

    Args:
        model: Float; neither changed nor copied.
        tensors: Names of float tensors of the main graph.
        source: The data.
        inputs: The model's.
        channels: The axis of those of `tensors` whose channels are looked at one by one.
        layers: Whose inputs' means hold-out samples get: shapes of their weights, by name.
        narrow: Whose inputs' moments they get, likewise.
        progress: Draw a progress bar on standard error.
        pool: Counts parts of the data; None: this process.
    Raises:
        CalibrationError: A tensor holds NaN or infinities, or never had a value; names it and the batch.
        QuantValueError: The data do not fit the model.
    """
    outputs = outputs_to_measure(model).names
    holdout_count, batches = _estimate_holdout(source)
    request = CountingRequest(
        tensors, outputs, source.name, channels or {}, layers or {}, narrow or {}, rows_of_run(holdout_count)
    )
    session = session_of(model, request, THREADS)
    cutter = BatchSplitter(session, outputs, inputs)
    with Progress("calibrating", source.total, progress) as bar:
        runs = cutter.runs(_advance_bar(batches, bar))
        if pool is None:
            counter = Counter(model, session, request, THREADS, lambda: cutter.stacks)
            statistics = count_runs(counter, in_order(counter.run, runs))
        else:
            statistics = count_in_pool(
                pool, PartCounter(PicklableModel(model), request, pool.threads or THREADS), runs
            )
    if cutter.stacks:
        statistics.sample.stack()
    _require_all(statistics.calibration, tensors)
    calibration = Calibration({name: statistics.calibration[name] for name in tensors})
    prepared = {"images": source.prepared} if source.prepared else {}
    calibration.record(source=source.name, batches=statistics.batches, samples=statistics.runs, **prepared)
    return CollectedData(calibration, statistics.sample, statistics.margins, statistics.channels)


def _advance_bar(batches: Iterable[Feeds], bar: Progress) -> Iterator[Feeds]:
    for done, feeds in enumerate(batches):
        bar.advance(done=done)
        yield feeds


def _require_all(calibration: Calibration, tensors: Sequence[str]) -> None:
    missing = [name for name in tensors if name not in calibration or not calibration[name].count.any()]
    if missing:
        shown = ", ".join(f"'{name}'" for name in missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise CalibrationError(
            f"tensor {shown}",
            f"no value in any batch ({len(missing)} of {len(tensors)} tensors)",
            "data that reach every tensor which is to be quantized",
            "give data that run through these parts of the model, or exclude their layers",
        )
