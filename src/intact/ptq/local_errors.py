"""What quantizing a tensor, and the weights that multiply it, does to the layers that read it: to them alone.

Each layer runs twice on the float model's own values: as it is, and with its input and weight rounded; what
it makes is compared. Small errors of independent layers add up along a network, each relative to the signal
where it arises (Lin, Talathi and Annapureddy 2016, "Fixed point quantization of deep convolutional
networks", section 3), so that the layers with the largest of these are those to look at first. One pass
over a few runs tells it for all tensors, where trials would need a pass for each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.calib.choice import Ends
from intact.graph import Inserter, Model, Namer, Node, Session, Value
from intact.numerics import store
from intact.ptq.ranges import QuantizedWeight, grid_of
from intact.ptq.sample import Held
from intact.ptq.sixteen import Unit
from intact.ptq.state import State
from intact.ptq.workers import THREADS, in_order
from intact.spec import QuantSpec

_FLOAT = 1  # of ONNX's element types

_Sums = dict[str, NDArray[np.float64]]


def local_errors(state: State, units: Sequence[Unit]) -> dict[Unit, float]:
    """Squared error relative to square of what the layers behind each unit make; the largest of several.

    Args:
        state: A float model with weights, ranges and held runs.
        units: What to quantize, each alone.
    """
    model = state.model.clone()
    probe = _Probe(model, state)
    compared = {unit: probe.add(unit) for unit in units}
    names = [name for pairs in compared.values() for pair in pairs for name in pair]
    if not names:
        return dict.fromkeys(units, 0.0)
    session = Session(model, extra=names, folded=True, threads=THREADS)

    def sums(held: Held) -> _Sums:
        return {name: np.asarray(a, np.float64) for name, a in session.stream(held.feeds, names)}

    total: _Sums = {name: np.zeros(()) for name in names}
    for found in in_order(sums, state.runs):
        for name, value in found.items():
            total[name] = total[name] + value.sum()
    return {
        unit: max((_ratio(total[error], total[square]) for error, square in pairs), default=0.0)
        for unit, pairs in compared.items()
    }


def _ratio(error: NDArray[np.float64], square: NDArray[np.float64]) -> float:
    """Nothing where there is no signal, or no number: such a layer says nothing about its input."""
    return float(error / square) if square > 0 and np.isfinite(error) and np.isfinite(square) else 0.0


class _Probe:
    """Copies of layers beside the layers of a float model, which is changed."""

    def __init__(self, model: Model, state: State) -> None:
        self._graph, self._names, self._state = model.graph, Namer(model.graph), state
        self._nodes = {node.name or "": node for node in model.graph}
        self._order = {name: index for index, name in enumerate(self._nodes)}
        self._layers = {node: layer.nodes for layer in state.placement.layers for node in layer.nodes}
        self._weights = {reader: weight for weight in state.weights for reader in weight.readers}
        self._rounded: dict[int, Value] = {}

    def add(self, unit: Unit) -> list[tuple[str, str]]:
        """Put copies of the layers behind `unit` in, with it quantized: (squared error, square) by name."""
        inside = {name for node in unit.nodes for name in self._layers.get(node, (node,))}
        nodes = [self._nodes[n] for n in sorted(inside & self._order.keys(), key=self._order.__getitem__)]
        edges = self._quantized(unit)
        copies: dict[Value, Value] = {}
        for node in nodes:
            inputs = [self._input((node, i), value, edges, copies) for i, value in enumerate(node.inputs)]
            insert = Inserter(self._graph, node, self._names, after=True)
            copies |= dict(zip(node.outputs, insert.copy(node, inputs), strict=True))
        mine = {id(node) for node in nodes}
        return [
            self._compared(value, copy)
            for value, copy in copies.items()
            if _is_real(value) and _leaves(value, mine)
        ]

    def _quantized(self, unit: Unit) -> dict[tuple[str, int], Value]:
        """What the readers of the unit get instead of its tensors."""
        chooser = self._state.chooser
        assert chooser is not None
        found: dict[tuple[str, int], Value] = {}
        for target in (one for one in self._state.activations if one.key == unit.key):
            name, index = min(target.readers, key=lambda reader: self._order[reader[0]])
            value, spec = self._nodes[name].inputs[index], chooser.spec(target)
            assert value is not None, "a site has a tensor"
            insert = Inserter(self._graph, self._nodes[name], self._names)
            real = _paired(insert, value, spec, self._state.ranges[target.key].ends)
            found |= dict.fromkeys(target.readers, real)
        return found

    def _input(
        self, reader: tuple[Node, int], value: Value | None, edges: dict[tuple[str, int], Value],
        copies: dict[Value, Value],
    ) -> Value | None:  # fmt: skip
        """What the copy of a node reads in place of `value`."""
        node, index = reader
        edge = (node.name or "", index)
        if (weight := self._weights.get(edge)) is not None:
            return self._weight(weight, node)
        if edge in edges or value is None:
            return edges.get(edge)
        return copies.get(value, value)

    def _weight(self, weight: QuantizedWeight, node: Node) -> Value:
        """What the codes of `weight` mean, once for all units."""
        if id(weight) not in self._rounded:
            insert = Inserter(self._graph, node, self._names)
            self._rounded[id(weight)] = insert.constant("probe.weight", weight.meant)
        return self._rounded[id(weight)]

    def _compared(self, value: Value, copy: Value) -> tuple[str, str]:
        node = copy.producer()
        assert node is not None
        insert = Inserter(self._graph, node, self._names, after=True)
        lost = insert.node("Sub", [copy, value], "probe.lost", dtype=value.dtype, shape=None)
        found = [
            insert.node("ReduceSumSquare", [one], f"probe.{name}", dtype=value.dtype, shape=None, keepdims=0)
            for name, one in (("error", lost), ("square", value))
        ]
        return found[0].name or "", found[1].name or ""


def _paired(insert: Inserter, value: Value, spec: QuantSpec, ends: Ends) -> Value:
    """`value` rounded to the grid of `spec` with range `ends`, through a pair."""
    scale, zero_point = grid_of(spec, ends)
    grid = [insert.constant("probe.scale", scale), insert.constant("probe.zero", store(zero_point, spec))]
    plain = value.dtype is None or value.dtype.value == _FLOAT
    x = value if plain else _cast(insert, value, _FLOAT)
    codes = insert.node("QuantizeLinear", [x, *grid], "probe.codes", dtype=None, shape=None)
    real = insert.node("DequantizeLinear", [codes, *grid], "probe.real", dtype=None, shape=None)
    return real if plain or value.dtype is None else _cast(insert, real, value.dtype.value)


def _cast(insert: Inserter, value: Value, dtype: int) -> Value:
    return insert.node("Cast", [value], "probe.cast", dtype=None, shape=None, to=dtype)


def _is_real(value: Value) -> bool:
    return value.dtype is None or value.dtype.is_floating_point()


def _leaves(value: Value, nodes: set[int]) -> bool:
    """Whether others than `nodes` read `value`."""
    return value.is_graph_output() or any(id(use.node) not in nodes for use in value.uses())
