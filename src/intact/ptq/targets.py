"""What the user asked for, site by site: the grid of each tensor, by defaults and overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

from intact.calib import METHODS
from intact.errors import QuantValueError, UnsupportedError
from intact.graph import FORMAT_OPSETS, MIN_OPSET, Model, Node, check_format, check_opset
from intact.placement import Placement, Site
from intact.spec import Format

BLOCK = 32
"""Elements of a 4-bit weight that share a scale, along the axis that a MatMul or Gemm sums over."""

_KEYS = ("format", "activations", "weights", "method", "axis", "block_size", "symmetric")
_WEIGHT_ONLY = ("int4", "uint4")


@dataclass(frozen=True)
class Settings:
    """How the inputs of one node are quantized.

    Attributes:
        activations, weights: Format names; "float": not at all.
        method: For activations: one of `METHODS` or "auto".
        symmetric: For activations.
        axis: Of weights: "channel", where placement says; None: one scale; or a number.
        block_size: Of weights; None: no blocks but for 4-bit formats.
    """

    activations: str = "int8"
    weights: str = "int8"
    method: str = "auto"
    symmetric: bool = True
    axis: Literal["channel"] | int | None = "channel"
    block_size: int | None = None

    def __post_init__(self) -> None:
        for name in ("activations", "weights"):
            one = getattr(self, name)
            if one != "float":
                one = Format.parse(one).name
                object.__setattr__(self, name, one)
                _one_of(name, one, FORMAT_OPSETS)
        _one_of("method", self.method, (*METHODS, "auto"))


Overrides = Mapping[str, Mapping[str, Any]]


def with_override(base: Settings, pattern: str, wanted: Mapping[str, Any]) -> Settings:
    """`base`, changed as one entry of overrides says.

    Raises:
        QuantValueError: An unknown key or value; names the pattern.
    """
    where = f"overrides[{pattern!r}]"
    if unknown := sorted(set(wanted) - set(_KEYS)):
        raise QuantValueError(where, f"{unknown[0]!r}", f"keys among {', '.join(_KEYS)}", "correct the key")
    changes = {key: value for key, value in wanted.items() if key != "format"}
    if (both := wanted.get("format")) is not None:
        changes = _of_format(both, base) | changes
    try:
        return replace(base, **changes)
    except QuantValueError as error:
        raise error.at(where) from None


def _of_format(name: str, base: Settings) -> dict[str, str]:
    """What one word for a layer means: 4-bit formats are for weights alone, 16-bit ones for activations."""
    if name == "float":
        return {"activations": "float", "weights": "float"}
    format = Format.parse(name)
    if format.name in _WEIGHT_ONLY:
        return {"activations": "float", "weights": format.name}
    if format.is_float:
        return {"activations": format.name, "weights": format.name}
    return {"activations": format.name, "weights": "int8"}


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
        self._base = base
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
        """Names of the nodes that overrides keep in float altogether."""
        return [name for name in self._nodes if self._of(name, "").activations == "float"
                and self._of(name, "").weights == "float"]  # fmt: skip

    def targets(self, placement: Placement) -> list[Target]:
        """What is quantized, and how, in the placement's order; tensors left in float are not in it."""
        found = []
        for site in placement.sites:
            by_grid: dict[Settings, tuple[Settings, list[tuple[str, int]]]] = {}
            for reader in site.readers:
                settings = self._relevant(site, reader, self._of(reader[0], site.value))
                by_grid.setdefault(replace(settings, method="auto"), (settings, []))[1].append(reader)
            for settings, readers in by_grid.values():
                format = settings.weights if site.role == "weight" else settings.activations
                if format != "float":
                    found.append(Target(site, tuple(readers), format, settings))
        return found

    def _of(self, node: str, tensor: str) -> Settings:
        for pattern, settings in self._rules:
            if _fits(self._nodes[node], pattern) or (tensor and fnmatchcase(tensor, pattern)):
                return settings
        return self._base

    def _relevant(self, site: Site, reader: tuple[str, int], settings: Settings) -> Settings:
        """`settings` without what does not matter for the site, so that equal grids are one target."""
        if site.role == "activation":
            return replace(settings, weights="int8", axis="channel", block_size=None)
        if settings.weights in _WEIGHT_ONLY and settings.block_size is None:
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


def _fits(node: Node, pattern: str) -> bool:
    return fnmatchcase(node.name or "", pattern) or fnmatchcase(node.op_type, pattern)


def _one_of(name: str, value: str, allowed: Any) -> None:
    if value not in allowed:
        raise QuantValueError(name, repr(value), f"one of {', '.join(allowed)}", "choose one of these")
