"""Smoothing: channels of unlike size brought to like ones in front of matrix products.

One scale serves a whole tensor: where one channel reaches 30 and the others 1, as behind LayerNormalization
and Gelu in transformers, the others are left with a few codes. ``x @ W`` is ``(x / s) @ (diag(s) W)`` for
any s > 0 per channel (Xiao et al. 2023, SmoothQuant). Here s is the smallest power of two, 1 at least, that
brings the channel to the 2^k-th part of the largest one: few channels change, and the float model computes
the same bits. The larger k, the finer the activations and the coarser the weights; it is chosen tensor by
tensor by the squared error to expect in the product, and nothing is done where that does not fall to half.

1 / s goes into the scale and bias of a LayerNormalization that nothing else reads, and else into a Mul
(docs/decisions/0011-smoothing.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from intact import kernels, numerics
from intact.calib import Calibration, Histogram
from intact.graph import Constants, Inserter, Model, Namer, Node, Session, Value, set_initializer
from intact.placement import Layer, Placement
from intact.ptq.ranges import weight_spec
from intact.ptq.sample import Held
from intact.ptq.state import State
from intact.ptq.targets import Target, channel_axis, summed_axis
from intact.ptq.workers import THREADS, WORKERS
from intact.spec import Format, QuantSpec

_MEASURED = 16  # of the held runs, at most: what they did not reach widens the range
_KEPT_BYTES = 2**27  # of their tensors: what does not fit is computed again
_HALVINGS = range(1, 8)  # k, above
_CLEARLY = 0.5  # of the expected error: what smoothing must get below to be worth a Mul


@dataclass(frozen=True)
class WeightProduct:
    """A product with a constant that reads the tensor.

    Attributes:
        node: Its name.
        weight: The initializer, which nobody else reads.
        spec: The grid that it will be on; None: it stays in float.
        transposed: The channels of the tensor are its second axis.
    """

    node: str
    weight: str
    spec: QuantSpec | None
    transposed: bool


@dataclass(frozen=True)
class SmoothableTensor:
    """A tensor that only products with constants read quantized."""

    target: Target
    products: tuple[WeightProduct, ...]

    @property
    def name(self) -> str:
        return self.target.site.value


def smoothed(state: State) -> State | None:
    """The model with smoothed tensors, and statistics for it; None where nothing is to be gained.

    The statistics of new tensors come from a few held runs, widened as far as all data reached beyond these.
    Those of the tensors as they were are kept.
    """
    found = _find(state)
    runs = state.runs[:_MEASURED]
    if not found or not runs or state.calibration is None:
        return None
    names = [one.name for one in found]
    tensors = _Tensors(state.model, names, runs)
    channels = _measure(tensors, names)
    factors = {}
    for one in found:
        if one.name in channels and (factor := _choose(state.model, one, channels[one.name])) is not None:
            factors[one.name] = factor
    if not factors:
        return None
    stats = _count(tensors, factors)
    made, renamed = _apply(state, [one for one in found if one.name in factors], factors)
    calibration = Calibration(dict(state.calibration), state.calibration.provenance)
    for old, new in renamed.items():
        seen, every = stats[old], state.calibration[old]
        reach = float(every.amax) / float(channels[old].largest.max())
        if reach > 1:
            seen.collect(np.float32(reach) * np.stack([seen.min, seen.max]))
        calibration[new] = seen
    return replace(made, calibration=calibration, smoothed=tuple(n for n in state.wanted if n in renamed))


class _Tensors:
    """What tensors are in each of some runs; run once where that fits into memory, and else every time."""

    def __init__(self, model: Model, names: Sequence[str], runs: Sequence[Held]) -> None:
        self._session = Session(model, extra=names, folded=True, threads=THREADS * WORKERS)
        self._runs = runs
        self._known: list[dict[str, NDArray]] = []
        self._room = _KEPT_BYTES

    def __call__(self, names: Sequence[str]) -> Iterator[tuple[str, NDArray]]:
        """Tensors by name, of one run after the other; `names` are among those of the first call."""
        for number, held in enumerate(self._runs):
            if number < len(self._known):
                yield from (
                    (name, self._known[number][name]) for name in names if name in self._known[number]
                )
                continue
            found = {}
            for name, array in self._session.stream(held.feeds, names):
                self._room -= array.nbytes
                if self._room >= 0:
                    found[name] = array
                yield name, array
            if self._room >= 0:
                self._known.append(found)


@dataclass
class _Channels:
    """Largest magnitude and mean square of every channel, float64 [channels]."""

    largest: NDArray[np.float64]
    square: NDArray[np.float64]
    rows: int

    @property
    def mean_square(self) -> NDArray[np.float64]:
        return self.square / self.rows


def _find(state: State) -> list[SmoothableTensor]:
    constants = Constants(state.model.graph)
    nodes = {node.name or "": node for node in state.model.graph}
    values = {v.name: v for node in state.model.graph for v in node.outputs}
    groups = [target.site.group for target in state.targets]
    weights = {reader: t for t in state.targets if t.site.role == "weight" for reader in t.readers}
    computed = {
        name: layer.precision == "float" or channel_axis(nodes[layer.name]) is not None
        for layer in state.placement.layers
        for name in layer.nodes
    }
    found = []
    for target in state.activations:
        value = values.get(target.site.value)
        producer = value.producer() if value is not None else None
        alone = groups.count(target.site.group) == 1 and target.readers == target.site.readers
        roomy = Format.parse(target.format).is_float or target.key in state.bits16
        if producer is None or not alone or roomy:
            continue
        # What runs in int8 by itself, on the codes of other tensors, could not write for a Mul.
        if not computed.get(producer.name or "", False):
            continue
        products = [_product(nodes[name], index, constants, weights) for name, index in target.readers]
        if all(products):
            found.append(SmoothableTensor(target, tuple(p for p in products if p is not None)))
    return found


def _product(
    node: Node, index: int, constants: Constants, weights: dict[tuple[str, int], Target]
) -> WeightProduct | None:
    if index != 0 or summed_axis(node, 0) != -1:
        return None
    value = node.inputs[1]
    if value is None or not value.is_initializer() or value.is_graph_input() or value.is_graph_output():
        return None
    array = constants(value)
    if array is None or array.ndim != 2 or len(value.uses()) != 1:
        return None
    target = weights.get((node.name or "", 1))
    spec = weight_spec(target) if target is not None else None
    outputs = channel_axis(node)
    assert outputs is not None
    if spec is not None and (spec.block_size is not None or {a % 2 for a in spec.axes} - {outputs % 2}):
        return None
    return WeightProduct(node.name or "", value.name or "", spec, outputs % 2 == 0)


def _measure(tensors: _Tensors, names: Sequence[str]) -> dict[str, _Channels]:
    found: dict[str, _Channels] = {}
    for name, array in tensors(names):
        x = array.reshape(-1, array.shape[-1]).astype(np.float32, copy=False)
        if not x.size:
            continue
        largest = np.maximum(x.max(axis=0), -x.min(axis=0)).astype(np.float64)
        square = np.einsum("tc,tc->c", x, x, dtype=np.float64)
        if (known := found.get(name)) is None:
            found[name] = _Channels(largest, square, len(x))
        else:
            known.largest = np.maximum(known.largest, largest)
            known.square += square
            known.rows += len(x)
    return found


def _choose(model: Model, one: SmoothableTensor, channels: _Channels) -> NDArray[np.float64] | None:
    """The factor of every channel; None where the expected error does not clearly fall."""
    peak = channels.largest.max()
    if not 0 < peak < np.inf:
        return None
    part = np.maximum(channels.largest / peak, 2.0**-99)
    weights = [(_rows_are_channels(model, p), p.spec) for p in one.products]
    codes = 2 ** Format.parse(one.target.format).bits - 1
    best, least = None, _CLEARLY * _expected_error(np.ones(len(part)), channels, weights, codes)
    for halvings in _HALVINGS:
        factor = np.exp2(np.maximum(np.ceil(np.log2(part)) + halvings, 0))
        error = _expected_error(factor, channels, weights, codes)
        if error < least:
            best, least = factor, error
    return best


def _rows_are_channels(model: Model, product: WeightProduct) -> NDArray:
    tensor = model.graph.initializers[product.weight].const_value
    assert tensor is not None
    array = numerics.to_float32(tensor.numpy())
    return array.T if product.transposed else array


def _expected_error(
    factor: NDArray[np.float64],
    channels: _Channels,
    weights: Sequence[tuple[NDArray, QuantSpec | None]],
    codes: int,
) -> float:
    """Squared error to expect in one row of the products, summed over their outputs.

    A step d adds d^2 / 12 to every element; one whose channel is smaller than that is lost altogether. The
    error of x meets the squares of the weights, that of the weights the squares of x.
    """
    square = channels.mean_square
    step = 2 * float((channels.largest / factor).max()) / codes
    lost = np.minimum(step**2 / 12, square / factor**2) * factor**2
    error = 0.0
    for weight, spec in weights:
        error += float(lost @ np.einsum("ko,ko->k", weight, weight, dtype=np.float64))
        if spec is not None:
            scaled = weight * factor[:, None].astype(np.float32)
            largest = np.asarray(kernels.absmax(scaled, 1 if spec.axes else None)).astype(np.float64)
            steps = np.broadcast_to(largest / spec.qmax, weight.shape[1:])
            error += float((square / factor**2).sum() * (steps @ steps) / 12)
    return error


def _count(tensors: _Tensors, factors: dict[str, NDArray[np.float64]]) -> dict[str, Histogram]:
    stats = {name: Histogram() for name in factors}
    inverse = {name: 1 / factor for name, factor in factors.items()}
    for name, array in tensors(list(factors)):
        stats[name].collect(array * inverse[name].astype(array.dtype), threads=THREADS * WORKERS)
    return stats


def _apply(
    state: State, found: Sequence[SmoothableTensor], factors: dict[str, NDArray[np.float64]]
) -> tuple[State, dict[str, str]]:
    """A state with smoothed tensors, and the name of each new one by that of the old."""
    model = state.model.clone()
    graph = model.graph
    names, constants = Namer(graph), Constants(graph)
    nodes = {node.name or "": node for node in graph}
    values = {v.name: v for node in graph for v in node.outputs}
    renamed: dict[str, str] = {}
    added: dict[str, str] = {}
    for one in found:
        factor, readers = factors[one.name], [nodes[product.node] for product in one.products]
        for product in one.products:
            _rescale(model, product, factor)
        value = values[one.name]
        if _fold(value, readers, 1 / factor, names, constants):
            value.name = renamed[one.name] = names(f"{one.name}.smoothed")
            continue
        new = _multiply(value, readers, 1 / factor, names)
        renamed[one.name] = new.name or ""
        mul, producer = new.producer(), value.producer()
        assert mul is not None and producer is not None
        added[producer.name or ""] = mul.name or ""
    placement = _with_muls(state.placement, renamed, added)
    sites = {site.value: site for site in placement.sites}
    targets = tuple(
        replace(target, site=sites[renamed[old]]) if (old := target.site.value) in renamed else target
        for target in state.targets
    )
    return replace(state, model=model, placement=placement, targets=targets), renamed


def _rescale(model: Model, product: WeightProduct, factor: NDArray[np.float64]) -> None:
    tensor = model.graph.initializers[product.weight].const_value
    assert tensor is not None
    spread = factor if product.transposed else factor[:, None]
    set_initializer(model, product.weight, tensor.numpy() * spread.astype(np.float32))


def _fold(
    value: Value, readers: Sequence[Node], inverse: NDArray[np.float64], names: Namer, constants: Constants
) -> bool:
    """Put the factors into the LayerNormalization that makes `value`, where nobody else reads it."""
    node = value.producer()
    assert node is not None
    if node.domain or node.op_type != "LayerNormalization" or value.is_graph_output():
        return False
    if {use.node for use in value.uses()} != set(readers) or len(value.uses()) != len(readers):
        return False
    inputs = [(index, constants(given)) for index, given in enumerate(node.inputs) if index and given]
    if any(array is None or array.shape != inverse.shape for _, array in inputs):
        return False
    insert = Inserter(node.graph, node, names)  # type: ignore[arg-type]
    for index, array in inputs:
        assert array is not None
        name = f"{value.name}.smoothing"
        node.replace_input_with(index, insert.constant(name, array * inverse.astype(array.dtype)))
    return True


def _multiply(value: Value, readers: Sequence[Node], inverse: NDArray[np.float64], names: Namer) -> Value:
    node = value.producer()
    assert node is not None
    weight = readers[0].inputs[1]
    assert weight is not None and weight.const_value is not None
    insert = Inserter(node.graph, node, names, after=True)  # type: ignore[arg-type]
    dtype = weight.const_value.dtype
    factors = insert.constant(f"{value.name}.smoothing", inverse.astype(dtype.numpy()), dtype)
    new = insert.node("Mul", [value, factors], f"{value.name}.smoothed", dtype=dtype, shape=value.shape)
    for reader in readers:
        reader.replace_input_with(0, new)
    return new


def _with_muls(placement: Placement, renamed: dict[str, str], added: dict[str, str]) -> Placement:
    """The placement with the new tensors, and a layer for each Mul behind that of the node it follows."""
    sites = tuple(replace(site, value=renamed.get(site.value, site.value)) for site in placement.sites)
    layers = []
    for layer in placement.layers:
        layers.append(layer)
        for mul in (added[name] for name in layer.nodes if name in added):
            reason = "it brings channels to like ranges for the int8 products behind it (smoothing)"
            layers.append(Layer(mul, "Mul", (mul,), "float", "Mul", reason))
    return replace(placement, sites=sites, layers=tuple(layers))
