"""Inserts the Q/DQ pairs, and records which initializers hold the activations' scales."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact import graph
from intact.calib import Ends
from intact.graph import Inserter, Mark, Model, Namer, Pair, set_initializer
from intact.numerics import store
from intact.ptq.measure.quantization_state import State, StoredScale
from intact.ptq.scope.quantization_ranges import QuantizedWeight, Ranges, grid_of, make_mark, weights_of
from intact.ptq.scope.quantization_targets import Target
from intact.spec import QuantSpec


def with_weights(state: State) -> State:
    """Read every weight that is to be quantized, in the order of its targets."""
    chosen = [target for target in state.targets if target.site.role == "weight"]
    return replace(state, weights=weights_of(state.model.graph, chosen))


def with_pairs(state: State) -> State:
    """Insert the pairs, in place; the float weights are dropped."""
    model = state.model
    marks = Marks(model)
    weights = iter(state.weights)
    for target in state.targets:
        if target.site.role == "weight":
            marks.add_weight(target, next(weights))
        else:
            assert state.chooser is not None
            marks.add(target, state.chooser.spec(target), state.ranges[target.key].ends)
    graph.mark(model, marks.marks)
    pairs = graph.emit_qdq(model, state.opset)
    scales = tuple(_scales(model, pairs, marks.owners))
    graph.prune(model)
    return replace(state, scales=scales, weights=(), input_means=None, traced_model=None)


class Marks:
    """Collects the marks of a model, each under a unique name.

    Attributes:
        found: In the order in which they were added.
        owners: The target of each, by its name.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._nodes = {node.name or "": node for node in model.graph}
        self._names = Namer(model.graph)
        self.marks: list[Mark] = []
        self.owners: dict[str, Target] = {}

    def add(self, target: Target, spec: QuantSpec, ends: Ends) -> None:
        """Put `target` on the grid of `spec` with the range `ends`.

        Args:
            target: A tensor or weight.
            spec: Its grid.
            ends: (low, high), float32 of the shape of the scales.
        """
        name = target.site.value
        while name in self.owners:
            name = f"{name}.{target.format}"
        self.owners[name] = target
        self.marks.append(make_mark(target, spec, ends, name))

    def add_weight(self, target: Target, weight: QuantizedWeight) -> None:
        """Put a weight on its grid, with the codes that were chosen for it."""
        self.add(target, weight.spec, weight.ends)
        if weight.rounded is not None:
            self.marks[-1] = self._holding(weight.rounded, self.marks[-1])

    def _holding(self, rounded: NDArray[np.float32], mark: Mark) -> Mark:
        """Return `mark` of a tensor that holds `rounded`: its own where nobody else reads it, or else a new
        one.
        """
        first, index = mark.readers[0]
        value = self._nodes[first].inputs[index]
        assert value is not None and value.name is not None
        own = value.is_initializer() and not value.is_graph_input() and not value.is_graph_output()
        if own and {(use.node.name or "", use.idx) for use in value.uses()} == set(mark.readers):
            set_initializer(self._model, value.name, rounded)
            return mark
        insert = Inserter(self._model.graph, self._nodes[first], self._names)
        new = insert.constant(f"{value.name}.rounded", rounded, value.dtype)
        for name, at in mark.readers:
            self._nodes[name].replace_input_with(at, new)
        return replace(mark, value=new.name or "")


def _scales(model: Model, pairs: Iterable[Pair], owners: dict[str, Target]) -> Iterable[StoredScale]:
    values = {v.name: v for node in model.graph for v in node.outputs}
    for pair in pairs:
        target = owners[pair.quantizer]
        node = values[pair.real].producer()
        if target.site.role == "activation" and node is not None:
            scale, zero_point = (v.name if v is not None else None for v in node.inputs[1:3])
            yield StoredScale(target, scale or "", zero_point or "")


def feeds_of_ranges(state: State, ranges: Ranges) -> dict[str, NDArray]:
    """Return the scales and zero points of the activations by the initializer that holds them."""
    feeds: dict[str, NDArray] = {}
    assert state.chooser is not None
    for stored in state.scales:
        spec = state.chooser.spec(stored.target)
        scale, zero_point = grid_of(spec, ranges[stored.target.key].ends)
        feeds[stored.scale] = scale
        if not spec.symmetric:  # a symmetric grid has the zero point 0, whatever the range
            feeds[stored.zero_point] = store(zero_point, spec)
    return feeds
