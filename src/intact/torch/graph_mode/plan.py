"""From a placement on the exported graph to quantizers in the trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from intact.placement import Site
from intact.torch.graph_mode.analysis import Analysis, Edge
from intact.torch.graph_mode.record import Inserted, QuantizerCall
from intact.torch.graph_mode.tracing import Traced

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_WEIGHT_AXES: dict[Any, int] = {
    nn.functional.linear: 0,
    **dict.fromkeys((nn.functional.conv1d, nn.functional.conv2d, nn.functional.conv3d), 0),
    **dict.fromkeys((torch.conv1d, torch.conv2d, torch.conv3d), 0),
}
"""The axis of output channels of a functional layer's weight; otherwise the placement's."""


@dataclass
class QuantizerPlan:
    """What is to be done to a model.

    Attributes:
        modules: Path of each module that becomes a quantized one.
        own_input: Those of them whose own input quantizer does the work.
        inserted: Quantizers between calls.
        reasons: Quantizer -> why its tensor is quantized.
        left: Call or module -> why a wanted quantizer cannot be placed.
    """

    modules: list[str] = field(default_factory=list)
    own_input: set[str] = field(default_factory=set)
    inserted: list[Inserted] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


def make_plan(
    model: nn.Module, traced: Traced, found: Analysis, why_not: Callable[[str], str | None]
) -> QuantizerPlan:
    """Turn the sites of `found` into quantizers.

    Args:
        model, traced, found: The model, its trace and the placement on its export.
        why_not: For a module's path, why it has no quantized class that fits; None where it has.
    """
    return _Planner(model, traced, found, why_not).plan


@dataclass(frozen=True)
class _Tensor:
    """A site, as far as it can be reached from the trace."""

    site: Site
    edges: tuple[Edge, ...]


class _Planner:
    def __init__(
        self, model: nn.Module, traced: Traced, found: Analysis, why_not: Callable[[str], str | None]
    ) -> None:
        self.plan = QuantizerPlan()
        self._model, self._found, self._why_not = model, found, why_not
        self._nodes = {node.name: node for node in traced.graph.nodes}
        self._order = {name: position for position, name in enumerate(self._nodes)}
        self._calls = Counter(n.target for n in traced.graph.nodes if n.op == "call_module")
        self._taken: set[str] = set()
        self._unreachable = self._find_unreachable()
        weights = [site for site in found.placement.sites if site.role == "weight"]
        for site in weights:
            self._place_weight(site)
        groups: dict[int, list[_Tensor]] = {}
        for site in found.placement.sites:
            if site.role == "activation" and (edges := tuple(self._edges(site))):
                groups.setdefault(site.group, []).append(_Tensor(site, edges))
        self._named = Counter(
            edge.reader
            for tensors in groups.values()
            if (edge := self._first_function([e for t in tensors for e in t.edges])) is not None
        )
        for tensors in groups.values():
            self._place_group(tensors)

    def _find_unreachable(self) -> set[str]:
        """Operators of the file with an input to quantize that no call of the trace reads."""
        found = set[str]()
        for site in self._found.placement.sites:
            for node, index in site.readers:
                if (node, index) in self._found.edges:
                    continue
                reason = self._unreached(node, site)
                if reason is not None:
                    found.add(node)
                    self.plan.left.setdefault(self._label(node), reason)
        return found

    def _unreached(self, node: str, site: Site) -> str | None:
        """Why `site` cannot be quantized for `node`; None where the module that owns the node does it."""
        owner = self._nodes.get(self._found.owners.get(node, ""))
        if owner is None or owner.op != "call_module":
            return f"{site.reason}, but the tensor is inside one call of PyTorch"
        if site.role == "weight":
            return self._why_not(str(owner.target))
        return f"{site.reason}, but the tensor is inside the module"

    def _label(self, node: str) -> str:
        return self._found.labels.get(self._found.owners.get(node, ""), node)

    def _edges(self, site: Site) -> Iterable[Edge]:
        """The edges of `site`, each once, but for those of operators that cannot run in int8 as a whole."""
        reached = {
            self._found.edges[reader]: None
            for reader in site.readers
            if reader in self._found.edges and reader[0] not in self._unreachable
        }
        return sorted(reached, key=lambda e: (self._order[e.reader], e.operand))

    def _place_weight(self, site: Site) -> None:
        inside = [
            n for n, i in site.readers if (n, i) not in self._found.edges and n not in self._unreachable
        ]
        for node in inside:
            path = str(self._nodes[self._found.owners[node]].target)
            if path not in self.plan.modules:
                self.plan.modules.append(path)
                self.plan.reasons[f"{path}._weight_quantizer"] = site.reason
        by_source: dict[str, list[Edge]] = {}
        for edge in self._edges(site):
            by_source.setdefault(edge.source, []).append(edge)
        for source, edges in by_source.items():
            node = self._nodes[source]
            path = str(node.target) if node.op == "get_attr" else ""
            name = self._name(f"{path or self._found.labels[source]}_quantizer")
            axis = _WEIGHT_AXES.get(self._nodes[edges[0].reader].target, site.axis)
            self._insert(Inserted(name, (_call(source, edges),), path, axis), site.reason)

    def _place_group(self, tensors: list[_Tensor]) -> None:
        edges = [edge for tensor in tensors for edge in tensor.edges]
        reason = "; ".join(dict.fromkeys(tensor.site.reason for tensor in tensors))
        if len(edges) == 1 and (path := self._own(edges[0])) is not None:
            if path not in self.plan.modules:
                self.plan.modules.append(path)
            self.plan.own_input.add(path)
            self.plan.reasons[f"{path}._input_quantizer"] = reason
            return
        calls = []
        for tensor in tensors:
            by_source: dict[str, list[Edge]] = {}
            for edge in tensor.edges:
                by_source.setdefault(edge.source, []).append(edge)
            calls += [_call(source, some) for source, some in by_source.items()]
        self._insert(Inserted(self._name_of(edges), tuple(calls)), reason)

    def _insert(self, item: Inserted, reason: str) -> None:
        self.plan.inserted.append(item)
        self.plan.reasons[item.name] = reason

    def _own(self, edge: Edge) -> str | None:
        """The module whose own input quantizer can stand on `edge`."""
        reader = self._nodes[edge.reader]
        path = str(reader.target)
        if reader.op != "call_module" or edge.operand != 0 or self._calls[reader.target] > 1:
            return None
        return path if path in self.plan.modules or self._why_not(path) is None else None

    def _first_function(self, edges: list[Edge]) -> Edge | None:
        return next((e for e in edges if self._nodes[e.reader].op != "call_module"), None)

    def _name_of(self, edges: list[Edge]) -> str:
        """Called after the first function that reads the tensor, else after the first module."""
        if (edge := self._first_function(edges)) is None:
            return self._name(f"{self._found.labels[edges[0].reader]}_input_quantizer")
        which = f"_{edge.operand}" if self._named[edge.reader] > 1 else ""
        return self._name(f"{self._found.labels[edge.reader]}_quantizer{which}")

    def _name(self, wanted: str) -> str:
        """A free name like `wanted` inside a module that has a forward of its own."""
        number, path = 0, self._housed(wanted)
        while path in self._taken:
            number += 1
            path = self._housed(f"{wanted}_{number}")
        self._taken.add(path)
        return path

    def _housed(self, wanted: str) -> str:
        parts = wanted.split(".")
        depth = len(parts) - 1
        while depth and not self._is_house(".".join(parts[:depth])):
            depth -= 1
        path = ".".join([*parts[:depth], "_".join(parts[depth:])])
        owner = self._model.get_submodule(".".join(parts[:depth]))
        return f"{path}_" if hasattr(owner, "_".join(parts[depth:])) else path

    def _is_house(self, path: str) -> bool:
        try:
            return not isinstance(self._model.get_submodule(path), _CONTAINERS)
        except AttributeError:
            return False


def _call(source: str, edges: Iterable[Edge]) -> QuantizerCall:
    return QuantizerCall(source, tuple((edge.reader, edge.operand) for edge in edges))
