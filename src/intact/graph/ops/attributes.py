"""Read and write attributes of nodes, with types: an error names the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from intact.errors import FileFormatError

FIX = "export the model again; this file is damaged or was edited"


def integer(node: ir.Node, name: str, default: int) -> int:
    """Return an attribute as an integer; `default` where it is left out.

    Raises:
        FileFormatError: It is of another type; names the node. So do the others.
    """
    return int(_of(node, name, ir.AttributeType.INT, default))


def integers(node: ir.Node, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """Return an attribute as integers."""
    return tuple(int(number) for number in _of(node, name, ir.AttributeType.INTS, default))


def floating(node: ir.Node, name: str, default: float) -> float:
    """Return an attribute as a real."""
    return float(_of(node, name, ir.AttributeType.FLOAT, default))


def floatings(node: ir.Node, name: str, default: Sequence[float]) -> tuple[float, ...]:
    """Return an attribute as reals."""
    return tuple(float(number) for number in _of(node, name, ir.AttributeType.FLOATS, default))


def text(node: ir.Node, name: str, default: str) -> str:
    """Return an attribute as a word."""
    return str(_of(node, name, ir.AttributeType.STRING, default))


def texts(node: ir.Node, name: str, default: Sequence[str]) -> tuple[str, ...]:
    """Return an attribute as words."""
    return tuple(str(word) for word in _of(node, name, ir.AttributeType.STRINGS, default))


def has(node: ir.Node, name: str) -> bool:
    """Return whether a node has an attribute."""
    return name in node.attributes


def names(node: ir.Node) -> set[str]:
    """Return the names of the attributes that a node has."""
    return set(node.attributes)


def has_references(node: ir.Node) -> bool:
    """Return whether a call of the function around a node gives one of its attributes."""
    return any(attribute.is_ref() for attribute in node.attributes.values())


def has_graphs(node: ir.Node) -> bool:
    """Return whether an attribute holds graphs, or refers to one that does."""
    return any(attribute.type in _GRAPHS for attribute in node.attributes.values())


def copy_attributes(node: ir.Node, *without: str) -> dict[str, Any]:
    """Copy all attributes but those `without`, for a similar node."""
    return {name: attribute for name, attribute in node.attributes.items() if name not in without}


def values(node: ir.Node) -> dict[str, Any]:
    """Return the values of attributes, without references."""
    return {name: a.value for name, a in node.attributes.items() if not a.is_ref()}


def tensors(node: ir.Node) -> dict[str, ir.TensorProtocol]:
    """Return the tensors among the attributes, by name."""
    tensor = ir.AttributeType.TENSOR
    return {name: a.value for name, a in node.attributes.items() if a.type == tensor and not a.is_ref()}


def plain(node: ir.Node) -> dict[str, Any]:
    """Return all attributes of an unknown operator, as JSON has them."""
    values = {key: attribute.value for key, attribute in node.attributes.items()}
    return {key: list(v) if isinstance(v, tuple | list) else v for key, v in values.items()}


def arrays(node: ir.Node) -> dict[str, Any]:
    """Return all attributes of an unknown operator: text as bytes, tensors as arrays."""
    return {name: _array(attribute) for name, attribute in node.attributes.items()}


def _array(attribute: ir.Attr) -> Any:
    if attribute.type is ir.AttributeType.STRING:
        return attribute.as_string().encode()
    if attribute.type is ir.AttributeType.TENSOR:
        return attribute.as_tensor().numpy()
    return attribute.value


def subgraphs(node: ir.Node) -> list[ir.Graph]:
    """List the graphs that are attributes of `node` itself."""
    graphs: list[ir.Graph] = []
    for attribute in node.attributes.data.values():  # of the dict within: a third of the time
        if attribute.type == ir.AttributeType.GRAPH:
            graphs.append(attribute.value)
        elif attribute.type == ir.AttributeType.GRAPHS:
            graphs.extend(attribute.value)
    return graphs


def inner_graphs(node: ir.Node) -> dict[str, ir.Graph]:
    """Return the graphs that are attributes of `node` itself, each by the attribute's name."""
    kind = ir.AttributeType.GRAPH
    return {
        name: attribute.value for name, attribute in node.attributes.data.items() if attribute.type == kind
    }


def graph(node: ir.Node, name: str) -> ir.Graph:
    """Read an attribute as a graph.

    Raises:
        FileFormatError: It is left out, or of another type; names the node.
    """
    value = _of(node, name, ir.AttributeType.GRAPH, None)
    if value is None:
        where = f"node '{node.name}' ({node.op_type}): attribute '{name}'"
        raise FileFormatError(where, "nothing", "a graph", FIX)
    return value  # type: ignore[no-any-return]


def put(node: ir.Node, name: str, value: Any) -> None:
    """Give `node` an attribute: a number, text, a list of either that is not empty, or one of onnx-ir's."""
    node.attributes[name] = ir.convenience.convert_attribute(name, value)


def take(node: ir.Node, name: str) -> ir.Attr | None:
    """Remove an attribute and return it; None where it was left out."""
    return node.attributes.pop(name, None)


def remove(node: ir.Node, *names: str) -> None:
    """Remove attributes, if present."""
    for name in names:
        node.attributes.pop(name, None)


def clear(node: ir.Node) -> None:
    """Remove all attributes."""
    node.attributes.clear()


_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _of(node: ir.Node, name: str, kind: ir.AttributeType, default: Any) -> Any:
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    if attribute.type != kind or attribute.is_ref():
        got = (
            f"a reference to '{attribute.ref_attr_name}'"
            if attribute.is_ref()
            else f"the type {attribute.type.name}"
        )
        where = f"node '{node.name}' ({node.op_type}): attribute '{name}'"
        raise FileFormatError(where, got, f"the type {kind.name}", FIX)
    return attribute.value
