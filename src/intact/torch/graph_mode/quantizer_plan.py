"""From a placement on the exported graph to quantizers between a model's calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from intact.placement import Site
from intact.torch.graph_mode.analysis import Analysis
from intact.torch.graph_mode.model_calls import ModelCall
from intact.torch.graph_mode.record import Inserted, Spot
from intact.torch.graph_mode.trace_records import Edge, Origin

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_PARAMETRIZED = re.compile(r"(.+\.)?parametrizations\.(\w+)")
"""The path of what makes a module's attribute from parameters of other names."""


@dataclass
class QuantizerPlan:
    """What is to be done to a model.

    Attributes:
        modules: Path of each module that becomes a quantized one.
        own_input: Those of them whose own input quantizer does the work.
        layers: Path of each recurrent one -> the quantizers of its layers that do: "_input_quantizers.1".
        inserted: Quantizers between calls.
        reasons: Quantizer -> why its tensor is quantized.
        left: Call or module -> why a wanted quantizer cannot be placed.
    """

    modules: list[str] = field(default_factory=list)
    own_input: set[str] = field(default_factory=set)
    layers: dict[str, set[str]] = field(default_factory=dict)
    inserted: list[Inserted] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


def make_plan(model: nn.Module, found: Analysis, why_not: Callable[[str], str | None]) -> QuantizerPlan:
    """Turn the sites of `found` into quantizers.

    Args:
        model, found: The model and the placement on its export.
        why_not: For a module's path, why it has no quantized class that fits; None where it has.
    """
    return _Planner(model, found, why_not).plan


@dataclass(frozen=True)
class _Tensor:
    """A site, as far as it can be reached from the model's calls."""

    site: Site
    edges: tuple[Edge, ...]


class _Planner:
    def __init__(self, model: nn.Module, found: Analysis, why_not: Callable[[str], str | None]) -> None:
        self.plan = QuantizerPlan()
        self._model, self._found, self._why_not = model, found, why_not
        self._traced = found.traced
        self._readers = Counter(edge.source for edge in found.traced.edges)
        self._order = {call: position for position, call in enumerate(self._traced.calls)}
        self._visits = Counter(call.module for call in self._traced.calls if not call.function)
        self._parameters = {name for name, _ in model.named_parameters()}
        self._taken: set[str] = set()
        self._weights: dict[tuple[Origin, Any], tuple[list[Edge], dict[str, None]]] = {}
        self._unreachable = self._find_unreachable()
        for site in found.placement.sites:
            self._place_inside(site)
            if site.role == "weight":
                self._place_weight(site)
        self._insert_weights()
        groups: dict[int, list[_Tensor]] = {}
        for site in found.placement.sites:
            if site.role == "activation" and (edges := tuple(self._edges(site))):
                groups.setdefault(site.group, []).append(_Tensor(site, edges))
        self._named = Counter(
            edge.reader
            for tensors in groups.values()
            if (edge := _first_function([e for t in tensors for e in t.edges])) is not None
        )
        for tensors in groups.values():
            self._place_group(tensors)

    def _find_unreachable(self) -> set[str]:
        """Operators of the file with an input to quantize that no call reads."""
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
        owner = self._found.owners.get(node)
        if owner is None or owner.function:
            return f"{site.reason}, but the tensor is inside one call of PyTorch"
        if site.role == "weight" or any(reader[0] == node for reader in self._found.inside):
            return self._why_not(owner.module)
        return f"{site.reason}, but the tensor is inside the module"

    def _label(self, node: str) -> str:
        owner = self._found.owners.get(node)
        return node if owner is None else owner.label

    def _edges(self, site: Site) -> Iterable[Edge]:
        """The edges of `site`, each once, but for those of operators that cannot run in int8 as a whole."""
        reached = {
            self._found.edges[reader]: None
            for reader in site.readers
            if reader in self._found.edges and reader[0] not in self._unreachable
        }
        return sorted(reached, key=lambda e: (self._order[e.reader], e.operand))

    def _place_inside(self, site: Site) -> None:
        """Quantizers of a recurrent module's layers."""
        kind = "_weight_quantizers" if site.role == "weight" else "_input_quantizers"
        for reader in site.readers:
            inside = self._found.inside.get(reader)
            if inside is None or reader in self._found.edges or reader[0] in self._unreachable:
                continue
            if inside.path not in self.plan.modules:
                self.plan.modules.append(inside.path)
            self._switch_on(inside.path, f"{kind}.{inside.layer}", site.reason)

    def _switch_on(self, path: str, quantizer: str, reason: str) -> None:
        self.plan.layers.setdefault(path, set()).add(quantizer)
        self.plan.reasons[f"{path}.{quantizer}"] = reason

    def _place_weight(self, site: Site) -> None:
        known = self._found.edges.keys() | self._found.inside.keys()
        inside = [n for n, i in site.readers if (n, i) not in known and n not in self._unreachable]
        for node in inside:
            path = self._found.owners[node].module
            if path not in self.plan.modules:
                self.plan.modules.append(path)
                self.plan.reasons[f"{path}._weight_quantizer"] = site.reason
        reached = _by_source(self._edges(site))
        axis = self._found.axis_of_edge(site) if reached else None
        for source, edges in reached.items():
            read, reasons = self._weights.setdefault((source, axis), ([], {}))
            read += edges
            reasons[site.reason] = None

    def _insert_weights(self) -> None:
        """One quantizer for all that read a weight along the same axes."""
        for (source, axis), (edges, reasons) in self._weights.items():
            weight = self._weight(source)
            name = self._name(f"{weight or f'{edges[0].reader.label}_weight'}_quantizer")
            spots = [self._spots(source, edges)]
            self._insert(name, spots, "; ".join(reasons), weight, axis, computed=not weight)

    def _weight(self, source: Origin) -> str:
        """Path of the attribute that holds a weight: a parameter, or what parametrizations make of some."""
        if source.parameter in self._parameters:
            return source.parameter
        path = source.call.module if source.call is not None and not source.call.function else ""
        made = _PARAMETRIZED.fullmatch(path)
        return "".join(made.groups("")) if made is not None else ""

    def _place_group(self, tensors: list[_Tensor]) -> None:
        edges = [edge for tensor in tensors for edge in tensor.edges]
        reason = "; ".join(dict.fromkeys(tensor.site.reason for tensor in tensors))
        if len(edges) == 1 and (path := self._own(edges[0])) is not None:
            if path not in self.plan.modules:
                self.plan.modules.append(path)
            if any(path == inside.path for inside in self._found.inside.values()):
                self._switch_on(path, "_input_quantizers.0", reason)
                return
            self.plan.own_input.add(path)
            self.plan.reasons[f"{path}._input_quantizer"] = reason
            return
        groups = [group for tensor in tensors for group in _by_source(tensor.edges).items()]
        self._insert(self._name_of(edges), [self._spots(*group) for group in groups], reason)

    def _insert(
        self, name: str, tensors: list[tuple[Spot, ...]], reason: str,
        weight: str = "", axis: Any = None, *, computed: bool = False,
    ) -> None:  # fmt: skip
        if placed := tuple(filter(None, tensors)):
            self.plan.inserted.append(Inserted(name, placed, weight, axis, computed))
            self.plan.reasons[name] = reason

    def _spots(self, source: Origin, edges: Sequence[Edge]) -> tuple[Spot, ...]:
        """In front of what reads a tensor; behind what makes it, where its readers differ from run to run."""
        steady = [edge for edge in edges if self._moody(edge.reader) is None]
        if len(steady) == len(edges):
            return tuple(Spot(edge.reader, edge.operand) for edge in edges)
        all_of_them = source not in self._traced.answers and self._readers[source] == len(edges)
        if all_of_them and source.call is not None and self._moody(source.call) is None:
            return (Spot(source.call, source.output, behind=True),)
        for edge in edges:
            if (when := self._moody(edge.reader)) is not None:
                name = edge.reader.function
                self.plan.left[edge.reader.label] = f"'{name}' is called another number of times {when}"
        return tuple(Spot(edge.reader, edge.operand) for edge in steady)

    def _moody(self, call: ModelCall) -> str | None:
        """When a run makes more or fewer calls of this name."""
        return self._traced.unsteady.get(call.kind)

    def _own(self, edge: Edge) -> str | None:
        """The module whose own input quantizer can stand on `edge`."""
        path = edge.reader.module
        if edge.reader.function or edge.operand != 0 or self._visits[path] > 1:
            return None
        return path if path in self.plan.modules or self._why_not(path) is None else None

    def _name_of(self, edges: list[Edge]) -> str:
        """Called after the first function that reads the tensor, else after the first module."""
        if (edge := _first_function(edges)) is None:
            return self._name(f"{edges[0].reader.label}_input_quantizer")
        which = f"_{edge.operand}" if self._named[edge.reader] > 1 else ""
        return self._name(f"{edge.reader.label}_quantizer{which}")

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
        name = re.sub(r"\W", "_", "_".join(parts[depth:]))
        path = ".".join([*parts[:depth], name])
        owner = self._model.get_submodule(".".join(parts[:depth]))
        return f"{path}_" if hasattr(owner, name) else path

    def _is_house(self, path: str) -> bool:
        try:
            return not isinstance(self._model.get_submodule(path), _CONTAINERS)
        except AttributeError:
            return False


def _first_function(edges: Iterable[Edge]) -> Edge | None:
    return next((edge for edge in edges if edge.reader.function), None)


def _by_source(edges: Iterable[Edge]) -> dict[Origin, list[Edge]]:
    found: dict[Origin, list[Edge]] = {}
    for edge in edges:
        found.setdefault(edge.source, []).append(edge)
    return found
