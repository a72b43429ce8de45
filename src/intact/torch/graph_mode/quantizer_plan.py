"""Turn a placement on the exported graph into quantizers between a model's calls."""

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
from intact.torch.graph_mode.record import InsertedQuantizer, Spot
from intact.torch.graph_mode.trace_records import Edge, Origin

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_PARAMETRIZED = re.compile(r"(.+\.)?parametrizations\.(\w+)")
"""Path of the module that computes another module's attribute from parameters of other names."""


@dataclass
class QuantizerPlan:
    """Describes what quantization changes in a model.

    Attributes:
        modules: Path of each module that becomes a quantized one.
        own_input: Those of them whose own input quantizer is used.
        layers: Path of each recurrent one -> the quantizers of its layers that are used:
            "_input_quantizers.1".
        inserted: Quantizers between calls.
        reasons: Quantizer -> why its tensor is quantized.
        left: Call or module -> why a wanted quantizer cannot be placed.
    """

    modules: list[str] = field(default_factory=list)
    own_input: set[str] = field(default_factory=set)
    layers: dict[str, set[str]] = field(default_factory=dict)
    inserted: list[InsertedQuantizer] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


def make_plan(model: nn.Module, analysis: Analysis, why_not: Callable[[str], str | None]) -> QuantizerPlan:
    """Turn the sites of an analysis into quantizers.

    Args:
        model: The model.
        analysis: The placement on its export.
        why_not: For a module's path, why it has no quantized class that fits; None where it has one.
    """
    return _Planner(model, analysis, why_not).plan


@dataclass(frozen=True)
class _Tensor:
    """A site, and those of its edges that the model's calls read."""

    site: Site
    edges: tuple[Edge, ...]


class _Planner:
    def __init__(self, model: nn.Module, analysis: Analysis, why_not: Callable[[str], str | None]) -> None:
        self.plan = QuantizerPlan()
        self._model, self._analysis, self._why_not = model, analysis, why_not
        self._traced = analysis.traced
        self._readers = Counter(edge.source for edge in analysis.traced.edges)
        self._order = {call: position for position, call in enumerate(self._traced.calls)}
        self._visits = Counter(call.module for call in self._traced.calls if not call.function)
        self._parameters = {name for name, _ in model.named_parameters()}
        self._used_names: set[str] = set()
        self._weights: dict[tuple[Origin, Any], tuple[list[Edge], dict[str, None]]] = {}
        self._unreachable = self._find_unreachable()
        for site in analysis.placement.sites:
            self._place_inside(site)
            if site.role == "weight":
                self._place_weight(site)
        self._insert_weights()
        groups: dict[int, list[_Tensor]] = {}
        for site in analysis.placement.sites:
            if site.role == "activation" and (edges := tuple(self._edges(site))):
                groups.setdefault(site.group, []).append(_Tensor(site, edges))
        self._groups_by_reader = Counter(
            edge.reader
            for tensors in groups.values()
            if (edge := _first_function([e for t in tensors for e in t.edges])) is not None
        )
        for tensors in groups.values():
            self._place_group(tensors)

    def _find_unreachable(self) -> set[str]:
        """Return operators of the file with an input to quantize that no call reads."""
        unreachable = set[str]()
        for site in self._analysis.placement.sites:
            for node, index in site.readers:
                if (node, index) in self._analysis.edges:
                    continue
                reason = self._why_unreachable(node, site)
                if reason is not None:
                    unreachable.add(node)
                    self.plan.left.setdefault(self._label(node), reason)
        return unreachable

    def _why_unreachable(self, node: str, site: Site) -> str | None:
        """Return why `site` cannot be quantized for `node`; None where the module that owns the node
        does it.
        """
        owner = self._analysis.owners.get(node)
        if owner is None or owner.function:
            return f"{site.reason}, but the tensor is inside one call of PyTorch"
        if site.role == "weight" or any(reader[0] == node for reader in self._analysis.inside):
            return self._why_not(owner.module)
        return f"{site.reason}, but the tensor is inside the module"

    def _label(self, node: str) -> str:
        owner = self._analysis.owners.get(node)
        return node if owner is None else owner.label

    def _edges(self, site: Site) -> Iterable[Edge]:
        """Return the edges of `site`, each once, without those of operators that cannot run in int8 as a
        whole.
        """
        reached = {
            self._analysis.edges[reader]: None
            for reader in site.readers
            if reader in self._analysis.edges and reader[0] not in self._unreachable
        }
        return sorted(reached, key=lambda e: (self._order[e.reader], e.operand))

    def _place_inside(self, site: Site) -> None:
        """Switch on the quantizers of a recurrent module's layers."""
        kind = "_weight_quantizers" if site.role == "weight" else "_input_quantizers"
        for reader in site.readers:
            inside = self._analysis.inside.get(reader)
            if inside is None or reader in self._analysis.edges or reader[0] in self._unreachable:
                continue
            if inside.path not in self.plan.modules:
                self.plan.modules.append(inside.path)
            self._switch_on(inside.path, f"{kind}.{inside.layer}", site.reason)

    def _switch_on(self, path: str, quantizer: str, reason: str) -> None:
        self.plan.layers.setdefault(path, set()).add(quantizer)
        self.plan.reasons[f"{path}.{quantizer}"] = reason

    def _place_weight(self, site: Site) -> None:
        readers_with_a_place = self._analysis.edges.keys() | self._analysis.inside.keys()
        inside = [
            n for n, i in site.readers if (n, i) not in readers_with_a_place and n not in self._unreachable
        ]
        for node in inside:
            path = self._analysis.owners[node].module
            if path not in self.plan.modules:
                self.plan.modules.append(path)
                self.plan.reasons[f"{path}._weight_quantizer"] = site.reason
        reached = _by_source(self._edges(site))
        axis = self._analysis.axis_of_edge(site) if reached else None
        for source, edges in reached.items():
            read, reasons = self._weights.setdefault((source, axis), ([], {}))
            read += edges
            reasons[site.reason] = None

    def _insert_weights(self) -> None:
        """Insert one quantizer for all that read a weight along the same axes."""
        for (source, axis), (edges, reasons) in self._weights.items():
            weight = self._weight(source)
            name = self._name(f"{weight or f'{edges[0].reader.label}_weight'}_quantizer")
            spots = [self._spots(source, edges)]
            self._insert(name, spots, "; ".join(reasons), weight, axis, computed=not weight)

    def _weight(self, source: Origin) -> str:
        """Return the path of the attribute that holds a weight: a parameter, or what parametrizations
        compute.
        """
        if source.parameter in self._parameters:
            return source.parameter
        path = source.call.module if source.call is not None and not source.call.function else ""
        match = _PARAMETRIZED.fullmatch(path)
        return "".join(match.groups("")) if match is not None else ""

    def _place_group(self, tensors: list[_Tensor]) -> None:
        edges = [edge for tensor in tensors for edge in tensor.edges]
        reason = "; ".join(dict.fromkeys(tensor.site.reason for tensor in tensors))
        if len(edges) == 1 and (path := self._own(edges[0])) is not None:
            if path not in self.plan.modules:
                self.plan.modules.append(path)
            if any(path == inside.path for inside in self._analysis.inside.values()):
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
            self.plan.inserted.append(InsertedQuantizer(name, placed, weight, axis, computed))
            self.plan.reasons[name] = reason

    def _spots(self, source: Origin, edges: Sequence[Edge]) -> tuple[Spot, ...]:
        """Place a quantizer in front of a tensor's readers, or behind its producer, where readers vary
        between runs.
        """
        steady = [edge for edge in edges if self._when_unsteady(edge.reader) is None]
        if len(steady) == len(edges):
            return tuple(Spot(edge.reader, edge.operand) for edge in edges)
        all_of_them = source not in self._traced.outputs and self._readers[source] == len(edges)
        if all_of_them and source.call is not None and self._when_unsteady(source.call) is None:
            return (Spot(source.call, source.output, behind=True),)
        for edge in edges:
            if (when := self._when_unsteady(edge.reader)) is not None:
                name = edge.reader.function
                self.plan.left[edge.reader.label] = f"'{name}' is called another number of times {when}"
        return tuple(Spot(edge.reader, edge.operand) for edge in steady)

    def _when_unsteady(self, call: ModelCall) -> str | None:
        """Describe when a run makes more or fewer calls of this kind; None where it never does."""
        return self._traced.unsteady.get(call.kind)

    def _own(self, edge: Edge) -> str | None:
        """Return the path of the module whose own input quantizer can quantize `edge`; None where there is
        none.
        """
        path = edge.reader.module
        if edge.reader.function or edge.operand != 0 or self._visits[path] > 1:
            return None
        return path if path in self.plan.modules or self._why_not(path) is None else None

    def _name_of(self, edges: list[Edge]) -> str:
        """Return a name after the first function that reads the tensor, or else after the first module."""
        if (edge := _first_function(edges)) is None:
            return self._name(f"{edges[0].reader.label}_input_quantizer")
        which = f"_{edge.operand}" if self._groups_by_reader[edge.reader] > 1 else ""
        return self._name(f"{edge.reader.label}_quantizer{which}")

    def _name(self, base_name: str) -> str:
        """Return a free name like `base_name` inside of a module that has a forward of its own."""
        number, path = 0, self._path_inside_owner(base_name)
        while path in self._used_names:
            number += 1
            path = self._path_inside_owner(f"{base_name}_{number}")
        self._used_names.add(path)
        return path

    def _path_inside_owner(self, base_name: str) -> str:
        parts = base_name.split(".")
        depth = len(parts) - 1
        while depth and not self._can_own(".".join(parts[:depth])):
            depth -= 1
        name = re.sub(r"\W", "_", "_".join(parts[depth:]))
        path = ".".join([*parts[:depth], name])
        owner = self._model.get_submodule(".".join(parts[:depth]))
        return f"{path}_" if hasattr(owner, name) else path

    def _can_own(self, path: str) -> bool:
        try:
            return not isinstance(self._model.get_submodule(path), _CONTAINERS)
        except AttributeError:
            return False


def _first_function(edges: Iterable[Edge]) -> Edge | None:
    return next((edge for edge in edges if edge.reader.function), None)


def _by_source(edges: Iterable[Edge]) -> dict[Origin, list[Edge]]:
    edges_by_source: dict[Origin, list[Edge]] = {}
    for edge in edges:
        edges_by_source.setdefault(edge.source, []).append(edge)
    return edges_by_source
