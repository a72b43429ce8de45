"""Site by site: the grid of each tensor that is quantized, and who reads it so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from intact.errors import QuantValueError, UnsupportedError
from intact.graph import FORMAT_OPSETS, MIN_OPSET, Constants, Model, Node, check_format, check_opset
from intact.placement import Placement, Site
from intact.ptq.settings import BLOCK, WEIGHT_ONLY, Overrides, Settings, with_override
from intact.spec import Format

_MOVING = {
    "DepthToSpace", "Dropout", "Expand", "Flatten", "Identity", "MaxPool", "Pad", "Reshape", "Slice",
    "SpaceToDepth", "Squeeze", "Transpose", "Unsqueeze",
}  # fmt: skip
"""Operators that a pair may stand in front of for the sake of the layer behind."""


@dataclass(frozen=True)
class Target:
    """One tensor on one grid, for some of its readers.

    Attributes:
        site: What placement decided.
        readers: Of the site, those who get this grid.
        format: Its name.
        settings: Theirs.
    """

    site: Site
    readers: tuple[tuple[str, int], ...]
    format: str
    settings: Settings

    @property
    def key(self) -> tuple[int, str, bool]:
        """Targets of one key share one range, by the method of the first."""
        return (self.site.group, self.format, self.settings.symmetric)


class Rules:
    """The settings of every node: the defaults, or the first override whose pattern fits.

    Args:
        model: Its nodes and tensors are what patterns fit.
        base: The defaults.
        overrides: By pattern (``*`` and ``?`` as in file names) over node names, operator types or tensors.
    Raises:
        QuantValueError: A pattern fits nothing, or its settings are wrong.
    """

    def __init__(self, model: Model, base: Settings, overrides: Overrides | None) -> None:
        self._model, self._base = model, base
        self._nodes: dict[str, Node] = {node.name or "": node for node in model.graph}
        self._rules = [(p, with_override(base, p, wanted)) for p, wanted in (overrides or {}).items()]
        tensors = {v.name for node in model.graph for v in (*node.inputs, *node.outputs) if v is not None}
        for pattern, _ in self._rules:
            fits_node = any(_fits(node, pattern) for node in self._nodes.values())
            if not fits_node and not any(fnmatchcase(name or "", pattern) for name in tensors):
                raise QuantValueError(
                    f"overrides[{pattern!r}]",
                    "no node, operator or tensor that fits",
                    f"patterns that fit names such as {sorted(self._nodes)[:3]}",
                    "correct the pattern; `intact explain` shows the names",
                )

    def opset(self, current: int, wanted: int | None) -> int:
        """The opset of the file: `wanted`, or else the model's own, raised to what the formats need.

        Raises:
            UnsupportedError: A format does not exist in `wanted`, or the model is of a newer opset.
        """
        formats = {f for s in (self._base, *(s for _, s in self._rules)) for f in (s.activations, s.weights)}
        formats.discard("float")
        if wanted is None:
            return max([current, MIN_OPSET, *(FORMAT_OPSETS[f] for f in formats)])
        check_opset(wanted)
        if wanted < current:
            raise UnsupportedError(
                "opset",
                str(wanted),
                f"{current} or newer: the model's own",
                "leave it out, or export the model anew",
            )
        for format in sorted(formats):
            check_format(Format.parse(format), wanted)
        return wanted

    def float_nodes(self) -> list[str]:
        """Names of the nodes whose activations stay in float: placement leaves them alone."""
        return [name for name in self._nodes if self._of(name, "").activations == "float"]

    def targets(self, placement: Placement, weight_only: Sequence[Site]) -> list[Target]:
        """What is quantized, and how, in the placement's order; tensors left in float are not in it.

        Args:
            placement: Of the nodes that `float_nodes` does not name.
            weight_only: What `weight_only` found.
        """
        found = []
        for site in (*placement.sites, *weight_only):
            by_grid: dict[Settings, tuple[Settings, list[tuple[str, int]]]] = {}
            for reader in site.readers:
                settings = self._relevant(site, reader, self._of(reader[0], site.value))
                by_grid.setdefault(replace(settings, method="auto"), (settings, []))[1].append(reader)
            for settings, readers in by_grid.values():
                format = settings.weights if site.role == "weight" else settings.activations
                if format != "float":
                    found.append(Target(site, tuple(readers), format, settings))
        return found

    def weight_only(self, include: Sequence[str], exclude: Sequence[str]) -> list[Site]:
        """The weights of the nodes that have quantized weights and float activations."""
        constants = Constants(self._model.graph)
        sites: list[Site] = []
        for name, node in self._nodes.items():
            settings, axis = self._of(name, ""), channel_axis(node)
            if settings.activations != "float" or settings.weights == "float" or axis is None:
                continue
            barred = any(_fits(node, p) for p in exclude) or (
                include and not any(_fits(node, p) for p in include)
            )
            value = node.inputs[1]
            if not barred and value is not None and value.name and constants(value) is not None:
                reason = f"{settings.weights} weights, float activations"
                sites.append(Site(value.name, ((name, 1),), "weight", axis, -1 - len(sites), reason))
        return sites

    def _of(self, node: str, tensor: str) -> Settings:
        """The first override that fits the tensor or the node; or what the node only moves data for."""
        here = self._nodes[node]
        for pattern, settings in self._rules:
            if _fits(here, pattern) or (tensor and fnmatchcase(tensor, pattern)):
                return settings
        if here.op_type in _MOVING and not here.domain and len(uses := [*here.outputs[0].uses()]) == 1:
            behind = uses[0].node.name or ""
            return self._of(behind, "") if behind in self._nodes else self._base
        return self._base

    def _relevant(self, site: Site, reader: tuple[str, int], settings: Settings) -> Settings:
        """`settings` without what does not matter for the site, so that equal grids are one target."""
        if site.role == "activation":
            return replace(settings, weights="int8", axis="channel", block_size=None)
        if settings.weights in WEIGHT_ONLY and settings.block_size is None:
            summed = summed_axis(self._nodes[reader[0]], reader[1])
            if summed is not None:
                settings = replace(settings, axis=summed, block_size=BLOCK)
        return replace(settings, activations="int8", method="auto", symmetric=True)


def summed_axis(node: Node, index: int) -> int | None:
    """The axis of input `index` that a MatMul or Gemm sums over, counted from the end; None for others."""
    if node.domain or node.op_type not in ("MatMul", "Gemm"):
        return None
    name = "transB" if index else "transA"
    transposed = node.op_type == "Gemm" and name in node.attributes and node.attributes[name].as_int()
    return -1 if bool(transposed) == bool(index) else -2


def channel_axis(node: Node) -> int | None:
    """The axis of a layer's second input that counts output channels; None for any other node."""
    if node.domain or len(node.inputs) < 2:
        return None
    transposed = "transB" in node.attributes and node.attributes["transB"].as_int()
    axes = {"Conv": 0, "ConvTranspose": 1, "Gemm": 0 if transposed else 1, "MatMul": -1}
    return axes.get(node.op_type)


def _fits(node: Node, pattern: str) -> bool:
    return fnmatchcase(node.name or "", pattern) or fnmatchcase(node.op_type, pattern)
