"""Group a module's quantizers into units: a quantizer of activations, and those of the weights that multiply
it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from intact.graph import Model, ops
from intact.ptq.stages import Unit, readers_behind
from intact.torch.graph_mode.analysis import Analysis
from intact.torch.graph_mode.model_calls import ModelCall
from intact.torch.graph_mode.quantizer_plan import QuantizerPlan


@dataclass(frozen=True)
class ModuleUnit:
    """A group of quantizers that get another format together.

    Attributes:
        unit: Its quantizer of activations as the one tensor, and the exported graph's nodes that read it.
        weights: Paths of the quantizers of weights that multiply it.
        labels: Labels of the calls that read it.
        widens: Whether all readers multiply it by constant weights. The engine computes these in integers
            from 16 bits, too (docs/decisions/0043-int16-activations-int8-weights.md).
    """

    unit: Unit
    weights: tuple[str, ...]
    labels: tuple[str, ...]
    widens: bool

    @property
    def activation(self) -> str:
        """Return the path of the quantizer of activations."""
        return self.unit.tensors[0]


def units_of(analysis: Analysis, plan: QuantizerPlan, enabled: Container[str]) -> list[ModuleUnit]:
    """Return the units of a model, in the order of the exported graph.

    Args:
        analysis: Of the model.
        plan: Of the model's quantizers.
        enabled: Paths of the quantizers that work.
    """
    nodes = {node.name or "": node for node in analysis.traced.model.graph}
    order = {name: index for index, name in enumerate(nodes)}
    pairs = {site.value for site in analysis.placement.sites if site.role == "activation"}
    units = list[ModuleUnit]()
    for activation, readers in _quantizers(analysis, plan):
        read = sorted(readers_behind(nodes, readers, pairs), key=order.__getitem__)
        if activation not in enabled or not read:
            continue
        computing = [name for name in read if not ops.may_move(nodes[name])] or read
        weights = [name for name in _weights(analysis, plan, computing) if name in enabled]
        labels = dict.fromkeys(analysis.label(name, nodes[name].op_type) for name in computing)
        widens = bool(weights) and all(nodes[name].op_type in ops.MULTIPLY_WIDE for name in computing)
        unit = Unit((len(units), activation, False, None), (activation,), tuple(read))
        units.append(ModuleUnit(unit, tuple(weights), tuple(labels), widens))
    return sorted(units, key=lambda unit: order[unit.unit.nodes[0]])


def _quantizers(analysis: Analysis, plan: QuantizerPlan) -> Iterator[tuple[str, set[str]]]:
    """Yield each quantizer of activations, and the nodes of the calls that read it."""
    for path in plan.own_input:
        yield f"{path}._input_quantizer", _nodes(analysis, {ModelCall(path)})
    for path, quantizers in plan.layers.items():
        for name in quantizers:
            kind, _, index = name.partition(".")
            if kind == "_input_quantizers":
                inside = {node for (node, _), layer in analysis.inside.items() if layer == (path, int(index))}
                yield f"{path}.{name}", inside
    for item in plan.inserted:
        spots = [spot for spots in item.tensors for spot in spots]
        # Of one that stands behind a call nobody says who reads.
        if not item.is_weight and not any(spot.behind for spot in spots):
            yield item.name, _nodes(analysis, {spot.call for spot in spots})


def _weights(analysis: Analysis, plan: QuantizerPlan, nodes: Iterable[str]) -> Iterator[str]:
    """Yield paths that quantizers of the weights of these nodes may have."""
    names = set(nodes)
    calls = {analysis.owners[name] for name in names if name in analysis.owners}
    yield from sorted(f"{call.module}._weight_quantizer" for call in calls if not call.function)
    for path, layer in sorted(
        {layer_input for (name, _), layer_input in analysis.inside.items() if name in names}
    ):
        yield f"{path}._weight_quantizers.{layer}"
    for item in plan.inserted:
        if item.is_weight and any(spot.call in calls for spots in item.tensors for spot in spots):
            yield item.name


def _nodes(analysis: Analysis, calls: Container[ModelCall]) -> set[str]:
    return {node for node, owner in analysis.owners.items() if owner in calls}


def shapes_of(model: Model) -> dict[str, tuple[int, ...]]:
    """Return the shapes of tensors as far as the graph has them, with 1 for sizes that it leaves open."""
    values = [value for node in model.graph for value in node.outputs]
    return {
        value.name: tuple(size if isinstance(size, int) else 1 for size in value.shape)
        for value in [*model.graph.inputs, *values]
        if value.name and value.shape is not None
    }
