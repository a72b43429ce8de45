"""The units of a module in graph mode: a quantizer of activations, and the weights that multiply it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from intact.graph import Model
from intact.ptq.sixteen import Unit
from intact.torch.graph_mode.analysis import Analysis
from intact.torch.graph_mode.calls import ModelCall
from intact.torch.graph_mode.plan import QuantizerPlan
from intact.torch.graph_mode.record import Inserted

_MULTIPLYING = {"Conv", "Gemm", "MatMul"}


@dataclass(frozen=True)
class ModuleUnit:
    """What gets another format as one.

    Attributes:
        unit: Its quantizer of activations as the one tensor, and the exported graph's nodes that read it.
        weights: Paths of the quantizers of what multiplies that.
        labels: Of the calls that read it.
        widens: Whether all that read it multiply it by constant weights: the engine computes that in
            integers from 16 bits, too (docs/decisions/0043-two-bytes.md).
    """

    unit: Unit
    weights: tuple[str, ...]
    labels: tuple[str, ...]
    widens: bool

    @property
    def activation(self) -> str:
        """Path of the quantizer of activations."""
        return self.unit.tensors[0]


def units_of(found: Analysis, plan: QuantizerPlan, enabled: Container[str]) -> list[ModuleUnit]:
    """The units of a model, in the order of the exported graph.

    Args:
        found, plan: Of the model.
        enabled: Paths of the quantizers that work.
    """
    order = {node.name or "": index for index, node in enumerate(found.traced.model.graph)}
    types = {node.name or "": node.op_type for node in found.traced.model.graph}
    units = list[ModuleUnit]()
    for activation, weights, calls, nodes in _parts(found, plan):
        if activation not in enabled or not nodes:
            continue
        weights = [name for name in weights if name in enabled]
        labels = tuple(dict.fromkeys(call.label for call in calls))
        products = [node for node in nodes if types[node] in _MULTIPLYING]
        unit = Unit(
            (len(units), activation, False), (activation,), tuple(sorted(nodes, key=order.__getitem__))
        )
        units.append(ModuleUnit(unit, tuple(weights), labels, bool(weights) and len(products) == len(calls)))
    return sorted(units, key=lambda one: order[one.unit.nodes[0]])


_Part = tuple[str, list[str], Sequence[ModelCall], set[str]]


def _parts(found: Analysis, plan: QuantizerPlan) -> Iterator[_Part]:
    """Activation, weights, calls that read it and their nodes."""
    for path in plan.own_input:
        calls = [call for call in found.traced.calls if call.module == path and not call.function]
        yield f"{path}._input_quantizer", [f"{path}._weight_quantizer"], calls, _nodes(found, calls)
    for path, quantizers in plan.layers.items():
        for name in quantizers:
            kind, _, index = name.partition(".")
            if kind == "_input_quantizers":
                calls = [call for call in found.traced.calls if call.module == path and not call.function]
                inside = {node for (node, _), one in found.inside.items() if one == (path, int(index))}
                yield f"{path}.{name}", [f"{path}._weight_quantizers.{index}"], calls, inside
    for item in plan.inserted:
        spots = [spot for spots in item.tensors for spot in spots]
        if item.weight or any(spot.behind for spot in spots):
            continue  # of one that stands behind a call nobody says who reads
        calls = list(dict.fromkeys(spot.call for spot in spots))
        yield item.name, list(_weights(calls, plan.inserted)), calls, _nodes(found, calls)


def _weights(calls: Iterable[ModelCall], inserted: Iterable[Inserted]) -> Iterator[str]:
    """Paths that quantizers of these calls' weights may have."""
    calls = set(calls)
    yield from (f"{call.module}._weight_quantizer" for call in calls if not call.function)
    for item in inserted:
        if item.weight and any(spot.call in calls for spots in item.tensors for spot in spots):
            yield item.name


def _nodes(found: Analysis, calls: Iterable[ModelCall]) -> set[str]:
    calls = set(calls)
    return {node for node, owner in found.owners.items() if owner in calls}


def shapes_of(model: Model) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors as far as the graph says them, sizes that it leaves open as 1."""
    values = [value for node in model.graph for value in node.outputs]
    return {
        value.name: tuple(size if isinstance(size, int) else 1 for size in value.shape)
        for value in [*model.graph.inputs, *values]
        if value.name and value.shape is not None
    }
