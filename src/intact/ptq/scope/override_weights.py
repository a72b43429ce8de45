"""Handles overrides beyond placement: tables stored in codes, and overrides that change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from intact.errors import QuantValueError
from intact.graph import Constants, Model, Node, is_op, ops
from intact.placement import Layer, Placement, Site
from intact.ptq.scope.quantization_targets import Target
from intact.ptq.scope.settings import Overrides

TABLE = "overrides store its table in codes; what it looks up is float"


def table_sites(model: Model, overrides: Overrides | None, barred: Sequence[str] = ()) -> list[Site]:
    """Return the constant tables of Gathers whose weights an override gives a format, each with one scale.

    Before: ``E -> Gather``, a table of float32.  After: ``E codes -> DequantizeLinear -> Gather``.

    Args:
        model: Float.
        overrides: The first that fits a Gather, or its table, decides.
        barred: Names of nodes, or patterns, that stay as they are.
    """
    constants, sites = Constants(model.graph), list[Site]()
    for node in model.graph:
        value = node.inputs[0] if is_op(node, "Gather") else None
        override = value is not None and _first_match(overrides or {}, node, value.name or "")
        if value is None or not value.name or not override or not _gives_weights(override):
            continue
        array = constants(value)
        excluded = any(_matches_any(pattern, (node.name or "", node.op_type)) for pattern in barred)
        if array is not None and array.dtype.kind == "f" and array.ndim > 1 and not excluded:
            reader = node.name or "", 0
            sites.append(Site(value.name, (reader,), "weight", None, -10_000 - len(sites), TABLE))
    return sites


def with_table_reasons(placed: Placement, tables: Sequence[Site]) -> list[Layer]:
    """Return the layers of `placed`, with a reason for those that look up a table in codes."""
    nodes = {name for site in tables for name, _ in site.readers}
    return [replace(layer, reason=TABLE) if layer.name in nodes else layer for layer in placed.layers]


def idle_overrides(
    model: Model, groups: Mapping[str, Sequence[str]], overrides: Overrides, targets: Sequence[Target],
    layers: Sequence[Layer],
) -> list[str]:  # fmt: skip
    """Return warnings about overrides that change nothing, because nothing they match is quantized.

    Args:
        model: Float.
        groups: The user's pattern -> those of `overrides` that it became.
        overrides: As resolved.
        targets, layers: What is quantized, and what runs how.
    Raises:
        QuantValueError: One of them names a node or tensor itself, and none puts a layer in float; has the
            reason why it stays in float.
    """
    nodes, warnings = {node.name or "": node for node in model.graph.all_nodes()}, list[str]()
    tensors = {v.name for node in nodes.values() for v in (*node.inputs, *node.outputs) if v is not None}
    main = {node.name or "" for node in model.graph}
    quantized_names = names_of_quantized(targets, nodes)
    reasons = {node: layer.reason for layer in layers for node in layer.nodes if layer.precision == "float"}
    # A layer in float takes what it shares a tensor with along: these two wishes of the user's meet.
    any_float = any("float" in settings.values() for settings in overrides.values())
    for user_pattern, patterns in groups.items():
        is_float = "float" in overrides[patterns[0]].values()
        if is_float or any(_matches_any(pattern, quantized_names) for pattern in patterns):
            continue
        if user_pattern not in main and user_pattern not in tensors:
            if user_pattern not in nodes:  # else it is in a branch
                warnings.append(
                    f"overrides: {user_pattern!r} changes nothing: no tensor that it fits is quantized"
                )
            continue
        reason = reasons.get(user_pattern, "no tensor of it is quantized")
        if any_float:
            warnings.append(f"overrides: {user_pattern!r} changes nothing: {reason}")
            continue
        raise QuantValueError(
            f"overrides[{user_pattern!r:.60}]",
            f"settings that change nothing: {reason}",
            "a layer or tensor that is quantized", "leave it out; `intact explain` shows what is quantized",
        )  # fmt: skip
    return warnings


def names_of_quantized(targets: Sequence[Target], nodes: Mapping[str, Node]) -> set[str]:
    """Return the names that an override can match: readers of quantized tensors, operators, tensors.

    An override of any other name changes nothing.

    Args:
        targets: What is quantized.
        nodes: Of the graph and its branches, by name.
    """
    names = {target.site.value for target in targets}
    waiting = [name for target in targets for name, _ in target.readers]
    while waiting:
        name = waiting.pop()
        node = nodes.get(name)
        if name in names or node is None:
            continue
        names |= {name, node.op_type}
        if not ops.may_move(node):
            continue
        names |= {value.name or "" for value in node.outputs}
        waiting += [use.node.name or "" for value in node.outputs for use in value.uses()]
    return names


def _first_match(overrides: Overrides, node: Node, tensor: str) -> Mapping[str, Any]:
    names = (node.name or "", node.op_type, tensor)
    return next((override for pattern, override in overrides.items() if _matches_any(pattern, names)), {})


def _gives_weights(override: Mapping[str, Any]) -> bool:
    return ("weights" in override or "format" in override) and "float" not in (
        override.get("weights"), override.get("format"),
    )  # fmt: skip


def _matches_any(pattern: str, names: Any) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)
