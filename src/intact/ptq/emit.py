"""The Q/DQ pairs put into the model, and where it keeps the activations' scales, to be chosen anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from numpy.typing import NDArray

from intact import graph
from intact.graph import Constants, Model, Pair
from intact.numerics import store
from intact.ptq.ranges import QuantizedWeight, Ranges, grid_of, make_mark, weight_of
from intact.ptq.state import State, StoredScale
from intact.ptq.targets import Target


def with_weights(state: State) -> State:
    """Every weight that is to be quantized, in the order of its targets."""
    constants = Constants(state.model.graph)
    values = {v.name: v for v in state.model.graph.initializers.values()}
    values |= {v.name: v for node in state.model.graph for v in node.outputs}
    chosen = [target for target in state.targets if target.site.role == "weight"]
    weights = [weight_of(target, constants, values[target.site.value]) for target in chosen]
    return replace(state, weights=tuple(weights))


def with_pairs(state: State) -> State:
    """The model with its pairs; the float weights are let go."""
    model = state.model.clone()
    owners: dict[str, Target] = {}
    weights = iter(state.weights)
    marks = []
    for target in state.targets:
        name = target.site.value
        while name in owners:
            name = f"{name}.{target.format}"
        owners[name] = target
        marks.append(_mark(state, target, weights, name))
    graph.mark(model, marks)
    pairs = graph.emit_qdq(model, state.opset)
    scales = tuple(_scales(model, pairs, owners))
    graph.prune(model)
    return replace(state, model=model, scales=scales, weights=())


def _mark(state: State, target: Target, weights: Iterable[QuantizedWeight], name: str) -> graph.Mark:
    if target.site.role == "weight":
        weight = next(iter(weights))
        return make_mark(target, weight.spec, weight.ends, name)
    assert state.chooser is not None
    return make_mark(target, state.chooser.spec(target), state.ranges[target.key].ends, name)


def _scales(model: Model, pairs: Iterable[Pair], owners: dict[str, Target]) -> Iterable[StoredScale]:
    values = {v.name: v for node in model.graph for v in node.outputs}
    for pair in pairs:
        target = owners[pair.quantizer]
        node = values[pair.real].producer()
        if target.site.role == "activation" and node is not None:
            scale, zero_point = (v.name if v is not None else None for v in node.inputs[1:3])
            yield StoredScale(target, scale or "", zero_point or "")


def feeds_of_ranges(state: State, ranges: Ranges) -> dict[str, NDArray]:
    """Scales and zero points of the activations by the initializer that holds them."""
    found: dict[str, NDArray] = {}
    assert state.chooser is not None
    for stored in state.scales:
        spec = state.chooser.spec(stored.target)
        scale, zero_point = grid_of(spec, ranges[stored.target.key].ends)
        found[stored.scale] = scale
        if not spec.symmetric:  # a symmetric grid has the zero point 0, whatever the range
            found[stored.zero_point] = store(zero_point, spec)
    return found
