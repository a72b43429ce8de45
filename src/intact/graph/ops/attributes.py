"""Attributes of nodes, typed: what a file says in another type is refused by the node's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from intact.errors import FileFormatError

FIX = "export the model again; this file is damaged or was edited"


def integer(node: ir.Node, name: str, default: int) -> int:
    """An attribute as an integer; `default` where it is left out.

    Raises:
        FileFormatError: It is of another type; names the node. So do the others.
    """
    return int(_of(node, name, ir.AttributeType.INT, default))


def integers(node: ir.Node, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """An attribute as integers."""
    return tuple(int(number) for number in _of(node, name, ir.AttributeType.INTS, default))


def floating(node: ir.Node, name: str, default: float) -> float:
    """An attribute as a real."""
    return float(_of(node, name, ir.AttributeType.FLOAT, default))


def floatings(node: ir.Node, name: str, default: Sequence[float]) -> tuple[float, ...]:
    """An attribute as reals."""
    return tuple(float(number) for number in _of(node, name, ir.AttributeType.FLOATS, default))


def text(node: ir.Node, name: str, default: str) -> str:
    """An attribute as a word."""
    return str(_of(node, name, ir.AttributeType.STRING, default))


def texts(node: ir.Node, name: str, default: Sequence[str]) -> tuple[str, ...]:
    """An attribute as words."""
    return tuple(str(word) for word in _of(node, name, ir.AttributeType.STRINGS, default))


def copied(node: ir.Node) -> dict[str, Any]:
    """All attributes, for a node like this one."""
    return dict(node.attributes)


def plain(node: ir.Node) -> dict[str, Any]:
    """All attributes of an operator that nobody knows, as JSON has them."""
    given = {key: attribute.value for key, attribute in node.attributes.items()}
    return {key: list(v) if isinstance(v, tuple | list) else v for key, v in given.items()}


def subgraphs(node: ir.Node) -> list[ir.Graph]:
    """The graphs among the attributes."""
    found: list[ir.Graph] = []
    for one in node.attributes.values():
        if one.type == ir.AttributeType.GRAPH:
            found.append(one.as_graph())
        elif one.type == ir.AttributeType.GRAPHS:
            found += one.as_graphs()
    return found


def _of(node: ir.Node, name: str, kind: ir.AttributeType, default: Any) -> Any:
    found = node.attributes.get(name)
    if found is None:
        return default
    if found.type != kind or found.is_ref():
        got = f"a reference to '{found.ref_attr_name}'" if found.is_ref() else f"the type {found.type.name}"
        where = f"node '{node.name}' ({node.op_type}): attribute '{name}'"
        raise FileFormatError(where, got, f"the type {kind.name}", FIX)
    return found.value
