"""Lists the tensors to quantize, each with its grid and readers, by the settings of each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import count

from intact.errors import UnsupportedError
from intact.graph import FORMAT_OPSETS, MIN_OPSET, Constants, Model, Node, check_format, check_opset, ops
from intact.placement import Layer, Placement, Site
from intact.ptq.scope.preset_grids import PresetGrid
from intact.ptq.scope.settings import (
    BLOCK,
    WEIGHT_ONLY,
    LayerSettings,
    Overrides,
    Settings,
    with_grid,
    with_override,
)
from intact.spec import Format

Read = tuple[str, int]
"""(node name, input index)."""

Key = tuple[int, str, bool, PresetGrid | None]
"""Targets of one key share one range."""

_PARTED = "overrides give the layers behind it other formats: their pairs stand behind it"


@dataclass(frozen=True)
class Target:
    """Describes one tensor on one grid, for some of its readers.

    Attributes:
        site: The decision of placement for the tensor.
        readers: The reads of the site that get this grid.
        format: The name of the number format.
        settings: The settings of these readers.
    """

    site: Site
    readers: tuple[Read, ...]
    format: str
    settings: LayerSettings

    @property
    def key(self) -> Key:
        """The key of the range; targets with equal keys share a range, chosen by the method of the first."""
        return (self.site.group, self.format, self.settings.symmetric, self.settings.grid)


def file_opset(settings: Settings, current: int) -> int:
    """Return the opset of the file: what was asked for, or the model's own, raised to what formats need.

    Raises:
        UnsupportedError: A format does not exist in it, or the model is of a newer opset.
    """
    base, requested = settings.layer, settings.opset
    every = [base, *(with_override(base, p, entry) for p, entry in (settings.overrides or {}).items())]
    formats = {
        format
        for settings_of_layer in every
        for format in (settings_of_layer.activations, settings_of_layer.weights)
    } - {"float"}
    if requested is None:
        return max([current, MIN_OPSET, *(FORMAT_OPSETS[f] for f in formats)])
    check_opset(requested)
    if requested < current:
        raise UnsupportedError(
            "opset", str(requested), f"{current} or newer: the model's own",
            "leave it out, or export the model anew",
        )  # fmt: skip
    for format in sorted(formats):
        check_format(Format.parse(format), requested)
    return requested


class Rules:
    """Finds the settings of every node: the first override that matches, or the defaults.

    Args:
        model: Its nodes and tensors are what patterns fit.
        base: The defaults.
        overrides: By pattern (``*`` and ``?`` as in file names) over node names, operator types or tensors,
            see `intact.ptq.scope.name_patterns`.
        grids: That tensors have already, where no override says otherwise.
    Raises:
        QuantValueError: Settings are wrong.
    """

    def __init__(
        self, model: Model, base: LayerSettings, overrides: Overrides | None,
        grids: Mapping[str, PresetGrid] | None = None,
    ) -> None:  # fmt: skip
        self._model, self._base, self._grids = model, base, grids or {}
        self._nodes: dict[str, Node] = {node.name or "": node for node in model.graph}
        self._rules = [(p, with_override(base, p, entry)) for p, entry in (overrides or {}).items()]

    def float_nodes(self) -> list[str]:
        """Return the names of the nodes whose activations stay in float: placement leaves them alone."""
        return [
            name for name in self._nodes
            if all(settings.activations == "float" for settings in self._wishes(name, ""))
        ]  # fmt: skip

    def with_reasons(self, placed: Placement, weight_only: Sequence[Site]) -> Placement:
        """Return `placed` with reasons for the nodes that settings, not exclusion, leave in float."""
        stored = {reader[0]: site.reason for site in weight_only for reader in site.readers}
        left = set(self.float_nodes())

        def layer(old: Layer) -> Layer:
            if old.name not in left:
                return old
            return replace(old, reason=stored.get(old.name, "kept in float: the settings for it say so"))

        return replace(placed, layers=tuple(map(layer, placed.layers)))

    def split(self, placed: Placement) -> Placement:
        """Move pairs behind a moving operator where the layers behind it want different grids.

        Before: ``Q/DQ(x) -> Flatten -> (fc1, fc2)``.  After: ``x -> Flatten -> (Q/DQ -> fc1, Q/DQ' -> fc2)``.
        """
        numbers = count(max((site.group for site in placed.sites), default=0) + 1)
        sites: list[Site] = []
        bypassed: set[str] = set()
        for site in placed.sites:
            parted = [
                r[0] for r in site.readers if site.role == "activation" and self._needs_own_grids(site, r[0])
            ]
            bypassed.update(parted)
            readers = tuple(r for r in site.readers if r[0] not in parted)
            if readers:
                sites.append(replace(site, readers=readers))
        values = {site.value for site in sites}
        waiting = list(dict.fromkeys(bypassed))
        for name in self._nodes:  # in the graph's order
            for value in self._nodes[name].outputs if name in waiting else ():
                readers = tuple((use.node.name or "", use.idx) for use in value.uses())
                if not readers or value.name in values:
                    continue
                site = Site(value.name or "", readers, "activation", None, next(numbers), _PARTED)
                parted = [r[0] for r in readers if self._needs_own_grids(site, r[0])]
                bypassed.update(parted)
                waiting.extend(parted)
                site = replace(site, readers=tuple(r for r in readers if r[0] not in parted))
                sites += [site] if site.readers else []
        layers = tuple(
            replace(old, precision="float", reason=_PARTED) if old.name in bypassed else old
            for old in placed.layers
        )
        return replace(placed, sites=tuple(sites), layers=layers)

    def _needs_own_grids(self, site: Site, reader: str) -> bool:
        """Return whether `reader` hands the tensor of `site` on to layers that want unlike grids."""
        wishes = self._wishes(reader, site.value)
        return len({replace(self._relevant(site, (reader, 0), wish), method="auto") for wish in wishes}) > 1

    def targets(self, placement: Placement, weight_only: Sequence[Site]) -> list[Target]:
        """Return the tensors to quantize, in the placement's order.

        Args:
            placement: Of the nodes that `float_nodes` does not name.
            weight_only: What `weight_only` found.
        """
        targets = []
        for site in (*placement.sites, *weight_only):
            by_grid: dict[LayerSettings, tuple[LayerSettings, list[tuple[str, int]]]] = {}
            for reader in site.readers:
                settings = self._relevant(site, reader, self._of(reader[0], site.value))
                settings = self._on_own_grid(site, settings)
                grid = replace(settings, method="auto")
                first, readers = by_grid.get(grid, (settings, []))
                by_grid[grid] = self._more_special(first, settings), [*readers, reader]
            for settings, readers in by_grid.values():
                format = settings.weights if site.role == "weight" else settings.activations
                if format != "float":
                    targets.append(Target(site, tuple(readers), format, settings))
        return targets

    def weight_only(self, include: Sequence[str], exclude: Sequence[str]) -> list[Site]:
        """Return the weights of the nodes that have quantized weights and float activations."""
        constants = Constants(self._model.graph)
        sites: list[Site] = []
        for name, node in self._nodes.items():
            settings, axis = self._of(name, ""), channel_axis(node)
            if settings.activations != "float" or settings.weights == "float" or axis is None:
                continue
            barred = any(_matches_pattern(node, p) for p in exclude) or (
                include and not any(_matches_pattern(node, p) for p in include)
            )
            value = node.inputs[1]
            if not barred and value is not None and value.name and constants(value) is not None:
                reason = f"weights alone are quantized ({settings.weights}), so that it computes in float"
                sites.append(Site(value.name, ((name, 1),), "weight", axis, -1 - len(sites), reason))
        return sites

    def _of(self, node: str, tensor: str) -> LayerSettings:
        """Return the settings of the first override that matches the tensor or node, or layers behind
        moves.
        """
        first, *further = self._wishes(node, tensor)
        for wish in further:
            first = self._more_special(first, wish)
        return first

    def _more_special(self, first: LayerSettings, second: LayerSettings) -> LayerSettings:
        """Return that of two settings of one grid whose method an override chose."""
        return second if first.method == self._base.method else first

    def _wishes(self, node: str, tensor: str) -> list[LayerSettings]:
        """Return the settings of `node`, a reader of `tensor`; of all layers behind it where it only moves
        data.
        """
        wishes: dict[LayerSettings, None] = {}
        waiting, visited = [(node, tensor)], set[tuple[str, str]]()
        while waiting:
            name, read = waiting.pop(0)
            here = self._nodes.get(name)  # None: in a subgraph
            own = self._override(here, read) if here is not None else self._base
            if own is None and here is not None and ops.may_move(here):
                behind = [(use.node.name or "", v.name or "") for v in here.outputs for use in v.uses()]
                waiting += [reader for reader in behind if reader not in visited]
                visited.update(behind)
                own = None if behind else self._base
            elif own is None:
                own = self._base
            if own is not None:
                wishes[own] = None
        return list(wishes)

    def _override(self, node: Node, tensor: str) -> LayerSettings | None:
        for pattern, settings in self._rules:
            if _matches_pattern(node, pattern) or (tensor and fnmatchcase(tensor, pattern)):
                return settings
        return None

    def _relevant(self, site: Site, reader: tuple[str, int], settings: LayerSettings) -> LayerSettings:
        """Return `settings` without what does not matter for the site, so that equal grids are one target."""
        if site.role == "activation":
            return replace(settings, weights="int8", axis="channel", block_size=None)
        if settings.weights in WEIGHT_ONLY and settings.block_size is None:
            axis = reduction_axis(self._nodes[reader[0]], reader[1])
            if axis is not None:
                settings = replace(settings, axis=axis, block_size=BLOCK)
        return replace(settings, activations="int8", method="auto", symmetric=True, grid=None)

    def _on_own_grid(self, site: Site, settings: LayerSettings) -> LayerSettings:
        """Return `settings` with the grid that the tensor has already."""
        grid = self._grids.get(site.value)
        weight = site.role == "weight"
        free = (
            settings.weights == self._base.weights
            if weight
            else settings.activations == self._base.activations
        )
        if grid is None or not free or settings.grid is not None or (grid.axis is not None and not weight):
            return settings
        if not weight:
            return with_grid(settings, grid)
        if not grid.symmetric or not grid.format:
            return settings
        return replace(settings, weights=grid.format, axis=grid.axis, scale_bits=None, grid=grid)


def reduction_axis(node: Node, index: int) -> int | None:
    """Return the axis of input `index` that a MatMul or Gemm sums over, counted from the end; None for
    others.
    """
    if node.domain or node.op_type not in ("MatMul", "Gemm"):
        return None
    form = ops.Gemm.of(node)
    transposed = node.op_type == "Gemm" and (form.transB if index else form.transA)
    return -1 if bool(transposed) == bool(index) else -2


def channel_axis(node: Node) -> int | None:
    """Return the axis of a layer's second input that counts output channels; None for any other node."""
    if node.domain or len(node.inputs) < 2:
        return None
    transposed = ops.Gemm.of(node).transB
    axes = {"Conv": 0, "ConvTranspose": 1, "Gemm": 0 if transposed else 1, "MatMul": -1}
    return axes.get(node.op_type)


def _matches_pattern(node: Node, pattern: str) -> bool:
    return fnmatchcase(node.name or "", pattern) or fnmatchcase(node.op_type, pattern)
