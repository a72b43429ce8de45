"""SmoothQuant: divides outlier channels in front of matrix products and convolutions by powers of two.

One scale serves a whole tensor: where one channel reaches 30 and the others 1, as behind LayerNormalization
and Gelu in transformers, or behind the HardSwish of a depthwise layer, the others are left with a few codes.
``x @ W`` is ``(x / s) @ (diag(s) W)`` for any s > 0 per channel (Xiao et al. 2023, SmoothQuant), and a
convolution is such a product at every place. Here s is the smallest power of two, 1 at least, that brings the
channel to the 2^k-th part of the largest one: the float model computes the same bits. The larger k, the finer
the activations and the coarser the weights, but for depthwise ones, whose channels have a scale each; it is
chosen tensor by tensor by the squared error to expect in the products, and nothing is done where that does
not fall to half.

Where the factors go is said in `smoothing_edits` (docs/decisions/0011-smoothing.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.calib import Calibration, Histogram, Range
from intact.graph import Constants, Model, Node, Session, ops, part
from intact.placement import profile_of
from intact.ptq.data.parallel_runs import THREADS, in_order
from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.measure.quantization_state import InputMeans, State
from intact.ptq.measure.running_sums import RunningSums, add_by_name, channel_squares, means_of
from intact.ptq.scope.quantization_ranges import weight_spec
from intact.ptq.scope.quantization_targets import Target, channel_axis, reduction_axis
from intact.ptq.stages.smoothing_edits import SmoothableTensor, WeightProduct, apply_factors, passing_input
from intact.spec import Format

_MEASURED = 16  # of the hold-out samples, at most, for squares and counts
_KEPT_BYTES = 2**27  # of their tensors: what does not fit is computed again
_HALVINGS = range(1, 8)  # k, above
_SLACK = 1.25  # times the range, at most, for the largest channels, where that helps the others
_CLEARLY = 0.5  # of the expected error: what smoothing must get below to be worth a Mul


def smooth_images(state: State) -> State | None:
    """Smooth the inputs of convolutions; return None where nothing is gained."""
    return _smooth_tensors(state, images=True)


def smooth_products(state: State) -> State | None:
    """Smooth the inputs of matrix products; return None where nothing is gained."""
    return _smooth_tensors(state, images=False)


def _smooth_tensors(state: State, images: bool) -> State | None:
    """Smooth tensors, and derive the statistics of the new model.

    Factors and ends of the new tensors come from the ends of all channels over all data, squares and counts
    from a few hold-out samples. The statistics of the tensors as they were are kept.
    """
    candidates = {
        tensor.name: tensor
        for tensor in smoothable(state)
        if tensor.name in state.channels and (tensor.rank > 0) == images
    }
    runs = state.runs[: _MEASURED // 2 if images else _MEASURED]
    if not candidates or not runs or state.calibration is None:
        return None
    tensors = _Tensors(state, list(candidates), runs)
    squares = _mean_squares(tensors, runs, candidates)
    factors = {}
    for name, tensor in candidates.items():
        if name in squares:
            channels = _Channels.of(state.channels[name], squares[name])
            if (factor := _choose_factor(state.model, tensor, channels)) is not None:
                factors[name] = factor
    if not factors:
        return None
    stats = _count_smoothed(tensors, candidates, factors)
    edited, renamed = apply_factors(state, [candidates[name] for name in factors], factors)
    calibration = Calibration(dict(state.calibration), state.calibration.provenance)
    for old, new in renamed.items():
        ends = state.channels[old]
        reached = np.array([(ends.min / factors[old]).min(), (ends.max / factors[old]).max()], np.float32)
        stats[old].collect(reached)
        calibration[new] = stats[old]
    names = (*state.smoothed, *(name for name in state.tensors_to_calibrate if name in renamed))
    return replace(
        _update_runs(state, edited, candidates, factors, renamed), calibration=calibration, smoothed=names
    )


def _update_runs(
    state: State,
    edited: State,
    candidates: Mapping[str, SmoothableTensor],
    factors: Mapping[str, NDArray[np.float64]],
    renamed: Mapping[str, str],
) -> State:
    """Update the inner tensors and means of the samples, exactly, because factors are powers of two."""
    if not state.has_run:
        return edited

    changed = {product.node for old in renamed for product in candidates[old].products}

    def update(sample: HoldoutSample) -> HoldoutSample:
        if sample.inner is None:
            moments = {key: moments for key, moments in sample.moments.items() if key[0] not in changed}
            return replace(sample, moments=moments)
        inner = dict(sample.inner)
        for old, new in renamed.items():
            array = inner[old]
            inner[new] = array * candidates[old].along(1 / factors[old]).astype(array.dtype)
        return replace(sample, inner=inner)

    runs, means = tuple(map(update, edited.runs)), state.input_means
    if means is not None and means.are_of(state):
        scaled = dict(means.means)
        for old in renamed:
            for name in {product.node for product in candidates[old].products} & scaled.keys():
                mean = scaled[name]
                scaled[name] = mean / factors[old].reshape(-1, *[1] * (mean.ndim - 1))
        means = InputMeans(edited.model, scaled)
    return replace(edited, runs=runs, traced_model=edited.model, input_means=means)


class _Tensors:
    """Yields tensors of some runs; they are computed once if they fit into memory."""

    def __init__(self, state: State, names: Sequence[str], runs: Sequence[HoldoutSample]) -> None:
        self._model, self._names, self._runs = state.model, names, runs
        inner = [run.inner for run in runs if state.has_run and run.inner is not None]
        self._tensors_of_runs: list[dict[str, NDArray]] = inner if len(inner) == len(runs) else []
        self._room = _KEPT_BYTES
        self._sessions: dict[tuple[str, ...], tuple[Session, list[str]]] = {}

    def _session(self, names: Sequence[str]) -> tuple[Session, list[str]]:
        """Return a session that computes only `names`, and its inputs."""
        key = tuple(names)
        if key not in self._sessions:
            values_by_name = {value.name: value for node in self._model.graph for value in node.outputs}
            needed = part(self._model, self._model.graph.inputs, [values_by_name[name] for name in names])
            needed.graph.inputs[:] = [value for value in needed.graph.inputs if value.uses()]
            inputs = [value.name or "" for value in needed.graph.inputs]
            self._sessions[key] = Session(needed, folded=True, threads=THREADS), inputs
        return self._sessions[key]

    def __call__(self, names: Sequence[str]) -> Iterator[tuple[str, NDArray]]:
        """Yield the tensors by name, of one run after the other; `names` are among those of the first
        call.
        """
        for tensors in list(self._tensors_of_runs):
            yield from ((name, tensors[name]) for name in names if name in tensors)
        if len(self._tensors_of_runs) == len(self._runs):
            return
        session, inputs = self._session(names)

        def run(sample: HoldoutSample) -> dict[str, NDArray]:
            return dict(session.stream({name: sample.feeds[name] for name in inputs}, names))

        for tensors_of_run in in_order(run, self._runs[len(self._tensors_of_runs) :]):
            yield from tensors_of_run.items()
            self._room -= sum(array.nbytes for array in tensors_of_run.values())
            if self._room >= 0:
                self._tensors_of_runs.append(tensors_of_run)


@dataclass(frozen=True)
class _Channels:
    """Holds the ends and mean squares of a tensor's channels, float64 [channels]."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    square: NDArray[np.float64]

    @classmethod
    def of(cls, ends: Range, square: NDArray[np.float64]) -> _Channels:
        """Return the channels with these ends."""
        return cls(ends.min.astype(np.float64), ends.max.astype(np.float64), square)

    @property
    def largest(self) -> NDArray[np.float64]:
        """The largest magnitude of every channel."""
        return np.maximum(self.high, -self.low)

    def width(self, factor: NDArray[np.float64], symmetric: bool) -> float:
        """Return the width of the range when channels are divided by `factor`."""
        if symmetric:
            return 2 * float((self.largest / factor).max())
        low, high = (self.low / factor).min(), (self.high / factor).max()
        return float(max(high, 0) - min(low, 0))

    def parts(self, symmetric: bool) -> list[NDArray[np.float64]]:
        """Return the part of the range that each channel fills, at most 1, in several ways.

        A channel fills the larger of its parts below and above zero, so that dividing channels by factors
        in proportion divides the range, and makes no channel coarser than it was. Where one end is far
        nearer to zero than the other all channels may fill it: that end is then taken to be farther away,
        which makes the range wider by `_SLACK` at most.
        """
        below, above = np.maximum(-self.low, 0), np.maximum(self.high, 0)
        short, long = (below, above) if below.max() < above.max() else (above, below)
        peak, least = float(long.max()), float(short.max())
        if not 0 < peak < np.inf:
            return []
        if symmetric or least == 0:
            return [self.largest / peak]
        most = (peak + least) * _SLACK - peak
        ends = [least, *(end for end in peak * np.exp2(np.arange(-7.0, 1.0)) if least < end <= most)]
        return [np.maximum(long / peak, short / end) for end in ends]


def smoothable(state: State) -> list[SmoothableTensor]:
    """Return the tensors of a float model that only products with constants read quantized."""
    constants = Constants(state.model.graph)
    nodes = {node.name or "": node for node in state.model.graph}
    values = {v.name: v for node in state.model.graph for v in node.outputs}
    groups = [target.site.group for target in state.targets]
    weights = {reader: t for t in state.targets if t.site.role == "weight" for reader in t.readers}
    layers = {name: layer for layer in state.placement.layers for name in layer.nodes}
    sums = {name for name, layer in layers.items() if channel_axis(nodes[layer.name]) is not None}
    calibrated = set(state.tensors_to_calibrate)
    tensors = []
    for target in state.activations:
        value = values.get(target.site.value)
        producer = value.producer() if value is not None else None
        alone = groups.count(target.site.group) == 1 and target.readers == target.site.readers
        roomy = Format.parse(target.format).is_float or target.key in state.bits16
        layer = layers.get(producer.name or "") if producer is not None else None
        if producer is None or layer is None or not alone or roomy:
            continue
        # What runs in int8 by itself, on the codes of other tensors, could not write for a Mul.
        if (producer.name or "") not in sums and layer.precision != "float":
            continue
        products = [_weight_product(nodes[name], index, constants, weights) for name, index in target.readers]
        ranks = {p.rank for p in products if p is not None}
        images = ranks != {0}
        if not all(products) or len(ranks) != 1 or (images and not smooths_images(state)):
            continue
        if not images or _behind(producer, sums, constants, calibrated):
            tensors.append(SmoothableTensor(target, tuple(p for p in products if p is not None), ranks.pop()))
    return tensors


def _behind(node: Node, sums: Collection[str], constants: Constants, calibrated: Collection[str]) -> bool:
    """Return whether factors reach a layer that forms sums; elsewhere a Mul would add a pass over an
    image.
    """
    while (node.name or "") not in sums:
        data = passing_input(node, constants, calibrated)
        producer = data.producer() if data is not None else None
        if producer is None:
            return False
        node = producer
    return True


def smooths_images(state: State) -> bool:
    """Return whether the profile's engine multiplies channels in an epilogue: others would run a Mul."""
    return profile_of(state.settings.profile).rescales


def _weight_product(
    node: Node, index: int, constants: Constants, weights: dict[tuple[str, int], Target]
) -> WeightProduct | None:
    op = ops.read(node)
    image = isinstance(op, ops.Conv)
    if index != 0 or not (image or reduction_axis(node, 0) == -1):
        return None
    value = node.inputs[1]
    if value is None or not value.is_initializer() or value.is_graph_input() or value.is_graph_output():
        return None
    array = constants(value)
    if array is None or (not image and array.ndim != 2) or len(value.uses()) != 1:
        return None
    target = weights.get((node.name or "", 1))
    spec = weight_spec(target) if target is not None else None
    outputs = channel_axis(node)
    assert outputs is not None
    rank = array.ndim
    if spec is not None and (spec.block_size is not None or {a % rank for a in spec.axes} - {outputs % rank}):
        return None
    groups = op.group if isinstance(op, ops.Conv) else 1
    return WeightProduct(
        node.name or "", value.name or "", spec, outputs % rank == 0, rank if image else 0, groups
    )  # fmt: skip


def _mean_squares(
    tensors: _Tensors, runs: Sequence[HoldoutSample], candidates: Mapping[str, SmoothableTensor]
) -> dict[str, NDArray[np.float64]]:
    """Return the mean square of every channel over some positions of the runs."""
    sums: dict[str, RunningSums] = {}
    if all(name in sample.squares for sample in runs for name in candidates):
        for sample in runs:
            add_by_name(sums, {name: sample.squares[name] for name in candidates})
    else:
        for name, array in tensors(list(candidates)):
            add_by_name(sums, {name: channel_squares(array, candidates[name].axis)})
    return means_of(sums)


def _choose_factor(model: Model, tensor: SmoothableTensor, channels: _Channels) -> NDArray[np.float64] | None:
    """Choose the factor of every channel; None where the expected error does not clearly fall."""
    weights = [_WeightRows.of(product, _weight_array(model, product)) for product in tensor.products]
    even = np.ones(len(channels.square))
    best, least = None, _CLEARLY * _estimate_error(even, channels, tensor, weights)
    for filled in channels.parts(_is_symmetric(tensor)):
        for halvings in _HALVINGS:
            factor = np.ldexp(1.0, np.maximum(_powers_above(np.maximum(filled, 2.0**-99)) + halvings, 0))
            error = _estimate_error(factor, channels, tensor, weights)
            if error < least:
                best, least = factor, error
    return best


def _powers_above(x: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the least e with 2^e >= x of every number > 0; logarithms are not the same on every machine."""
    fraction, exponent = np.frexp(x)  # fraction * 2^exponent, from 1/2 on
    return np.where(fraction > 0.5, exponent, exponent - 1)


def _is_symmetric(tensor: SmoothableTensor) -> bool:
    """Return whether both ends of the range count as equally far from zero.

    Those of products of matrices always do: that weighs errors of activations more than those of weights,
    whose means are corrected, and did better where it was tried.
    """
    settings = tensor.target.settings
    return not tensor.rank or (settings.symmetric and Format.parse(tensor.target.format).signed)


def _weight_array(model: Model, product: WeightProduct) -> NDArray:
    tensor = model.graph.initializers[product.weight].const_value
    assert tensor is not None
    return numerics.to_float32(tensor.numpy())


@dataclass(frozen=True)
class _WeightRows:
    """Holds quantities of a weight that are used repeatedly.

    Attributes:
        product: Whose it is.
        squares: Of what every channel is multiplied by, summed, float64 [groups * channels].
        largest: Magnitudes, the largest of each kernel, float32 [groups, channels, outputs].
        taps: Of a kernel.
    """

    product: WeightProduct
    squares: NDArray[np.float64]
    largest: NDArray[np.float32]
    taps: int

    @classmethod
    def of(cls, product: WeightProduct, array: NDArray) -> _WeightRows:
        rows = product.rows(array)  # [groups, channels, outputs, taps]
        squares = np.square(rows, dtype=np.float64).sum(axis=(2, 3)).reshape(-1)
        return cls(product, squares, np.abs(rows).max(axis=3), rows.shape[3])


def _estimate_error(
    factor: NDArray[np.float64],
    channels: _Channels,
    tensor: SmoothableTensor,
    weights: Sequence[_WeightRows],
) -> float:
    """Estimate the squared error at one position of the products, summed over their outputs.

    A step d adds d^2 / 12 to every element; one whose channel is smaller than that is lost altogether. The
    error of x meets the squares of the weights, that of the weights the squares of x.
    """
    codes = 2 ** Format.parse(tensor.target.format).bits - 1
    step = channels.width(factor, _is_symmetric(tensor)) / codes
    square = channels.square / factor**2
    errors = np.minimum(step**2 / 12, square) * factor**2
    error = 0.0
    for weight in weights:
        groups, inputs, _ = weight.largest.shape
        error += float((errors * weight.squares).sum())
        spec = weight.product.spec
        if spec is not None:
            # Factors are powers of two: the largest of the products is the product of the largest.
            scaled = weight.largest * factor.astype(np.float32).reshape(groups, inputs, 1)
            largest = scaled.max(axis=1).astype(np.float64)  # [groups, outputs]
            largest = largest if spec.axes else np.full_like(largest, largest.max())
            steps = np.square(largest / spec.qmax).sum(axis=1)
            error += float((square.reshape(groups, inputs).sum(axis=1) * steps).sum() * weight.taps / 12)
    return error


def _count_smoothed(
    tensors: _Tensors, candidates: Mapping[str, SmoothableTensor], factors: Mapping[str, NDArray[np.float64]]
) -> dict[str, Histogram]:
    stats = {name: Histogram() for name in factors}
    inverse = {name: candidates[name].along(1 / factor) for name, factor in factors.items()}
    for name, array in tensors(list(factors)):
        stats[name].collect(array * inverse[name].astype(array.dtype), threads=THREADS)
    return stats
