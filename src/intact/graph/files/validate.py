"""Check the structure of a model before anything reads it: names, order, versions, sizes."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import onnx

from intact.errors import FileFormatError, UnsupportedError
from intact.graph.core.check_tensors import check_value
from intact.graph.core.proto import node_graphs
from intact.graph.infer.inlined_size import check_expansion
from intact.graph.ops.attributes import FIX
from intact.graph.opset.schema import check_attributes
from intact.limits import GRAPH_PORTS, GRAPH_VALUES, NODE_PORTS

TensorCheck: TypeAlias = Callable[[onnx.TensorProto, str], None]

MIN_READ_OPSET, MAX_READ_OPSET = 1, min(28, onnx.defs.onnx_opset_version())
"""Opsets that are read: what the installed onnx package knows of those whose changes were read."""
_MAX_VERSION = 2**31 - 1
"""Of any domain: more than an ONNX operator set counts to, and all that onnx takes."""
MIN_IR_VERSION = 3
"""The first IR version that says which opset a model uses."""

_ATTRIBUTE_TYPES = frozenset(onnx.AttributeProto.AttributeType.values())
_VALUES = frozenset(onnx.AttributeProto.DESCRIPTOR.fields_by_name) - {
    "name", "ref_attr_name", "doc_string", "type",
}  # fmt: skip
"""Fields of an attribute that hold its value."""


def check_structure(proto: onnx.ModelProto, check: TensorCheck, *, any_opset: bool) -> None:
    """Refuse a model that cannot be understood; sort its nodes where they are out of order.

    Args:
        proto: Nodes may be reordered, and nothing else is changed.
        check: What refuses a tensor; gets it and its place in words.
        any_opset: Accept every opset that the onnx package knows, not only those up to MAX_READ_OPSET.
    Raises:
        FileFormatError: Damaged: names the node, tensor or value.
        UnsupportedError: An IR version or opset that we do not read.
    """
    _check_ir(proto)
    versions = _check_versions(proto.opset_import, any_opset)
    check_expansion(proto)
    _check_functions(proto, _Rules(check, versions), any_opset)
    _refuse_twice([info.name for info in proto.graph.output], "output")
    if proto.graph.HasField("name") or proto.graph.node or proto.graph.output:
        _check_graph(proto.graph, None, _Rules(check, versions))
    else:
        raise FileFormatError("graph", "no graph in it", "an ONNX model", FIX)


@dataclass(frozen=True)
class _Rules:
    """Rules in force at a node.

    Attributes:
        tensor: Check of tensors.
        versions: The opset of each domain.
        in_function: Whether attributes may be those of the function around.
    """

    tensor: TensorCheck
    versions: dict[str, int]
    in_function: bool = False


class _Scope:
    """The names that a graph sees: its own, and those around it."""

    def __init__(self, names: set[str], outer: _Scope | None) -> None:
        self._names, self._outer = names, outer

    def __contains__(self, name: str) -> bool:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope._names:
                return True
            scope = scope._outer
        return False


def _check_ir(proto: onnx.ModelProto) -> None:
    if not MIN_IR_VERSION <= proto.ir_version <= onnx.IR_VERSION:
        raise UnsupportedError(
            "ir_version",
            str(proto.ir_version),
            f"{MIN_IR_VERSION}..{onnx.IR_VERSION}",
            "export the model with a current exporter, or update the onnx package",
        )


def _check_versions(opsets: Sequence[onnx.OperatorSetIdProto], any_opset: bool) -> dict[str, int]:
    """Return the opset of each domain."""
    low, high = MIN_READ_OPSET, onnx.defs.onnx_opset_version() if any_opset else MAX_READ_OPSET
    for entry in opsets:
        if entry.domain in ("", "ai.onnx") and not low <= entry.version <= high:
            raise UnsupportedError(
                "opset",
                str(entry.version),
                f"{low}..{high}",
                f"convert the model with onnx.version_converter, for example to opset {min(high, 17)}",
            )
        if not 0 <= entry.version <= _MAX_VERSION:
            got = f"version {entry.version} of domain '{entry.domain}'"
            raise FileFormatError("opset_import", got, f"versions of 0 to {_MAX_VERSION}", FIX)
    versions: dict[str, int] = {}
    for entry in opsets:  # tools that merge models write a domain again: harmless where they agree
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if versions.setdefault(domain, entry.version) != entry.version:
            got = f"versions {versions[domain]} and {entry.version} of domain '{domain}'"
            raise FileFormatError("opset_import", got, "one opset of each domain", FIX)
    if not versions:
        raise FileFormatError("opset_import", "no opset", "one opset of each domain", FIX)
    return versions


def _check_functions(proto: onnx.ModelProto, rules: _Rules, any_opset: bool) -> None:
    function_ids = {(f.domain, f.name, f.overload) for f in proto.functions}
    if len(function_ids) < len(proto.functions):
        raise FileFormatError("functions", "the same function twice", "each function once", FIX)
    for function in proto.functions:
        where = f"function '{function.name}'"
        names = function.name, function.domain, function.overload
        _require_text(where, *names, *function.input, *function.output)
        try:
            own = _check_versions(function.opset_import, any_opset) if function.opset_import else {}
        except (FileFormatError, UnsupportedError) as error:
            raise error.at(where) from error
        body = _Body(where, list(function.input), [], list(function.output))
        inside = replace(rules, versions=rules.versions | own, in_function=True)
        _reorder(function.node, _check_nodes(function.node, body, None, inside))


class _Body:
    """The names of one graph or function."""

    def __init__(self, where: str, inputs: list[str], constants: list[str], outputs: list[str]) -> None:
        self.where, self.inputs, self.constants, self.outputs = where, inputs, constants, outputs


def _check_graph(graph: onnx.GraphProto, outer: _Scope | None, rules: _Rules, at: str = "") -> None:
    for tensor in graph.initializer:
        rules.tensor(tensor, f"{at}initializer '{tensor.name}'")
    for sparse in graph.sparse_initializer:
        _check_sparse(sparse, f"{at}initializer '{sparse.values.name}'", rules)
    for info in (*graph.input, *graph.output, *graph.value_info):
        check_value(info, at)
    body = _Body(
        f"{at}graph",
        [info.name for info in graph.input],
        [t.name for t in graph.initializer] + [s.values.name for s in graph.sparse_initializer],
        [info.name for info in graph.output],
    )
    _reorder(graph.node, _check_nodes(graph.node, body, outer, rules, at))


def _check_sparse(sparse: onnx.SparseTensorProto, where: str, rules: _Rules) -> None:
    for part in (sparse.values, sparse.indices):
        rules.tensor(part, where)


def _check_nodes(
    nodes: Iterable[onnx.NodeProto], body: _Body, outer: _Scope | None, rules: _Rules, at: str = ""
) -> list[int]:
    """Return the nodes' indices in an order in which every value exists before it is read."""
    nodes = list(nodes)
    _refuse_twice(body.inputs, f"{at}input")
    _refuse_twice(body.constants, f"{at}initializer")
    outer_names = {*body.inputs, *body.constants}
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        where = node_label(node, index, at)
        if not node.op_type:
            raise FileFormatError(where, "no operator type", "a node with one", FIX)
        for name in filter(None, node.output):
            if name in makers or name in outer_names:
                got = f"an output '{name}' that exists already"
                raise FileFormatError(where, got, "a name of its own", FIX)
            makers[name] = index
    ports = len(set(body.inputs).difference(body.constants)) + len(body.outputs)
    GRAPH_PORTS.check(ports, body.where)
    GRAPH_VALUES.check(len(outer_names) + len(makers), body.where)
    visible = _Scope(outer_names | makers.keys(), outer)
    uses = [_check_node(node, visible, node_label(node, i, at), rules) for i, node in enumerate(nodes)]
    for name in body.outputs:
        if name not in makers and name not in outer_names:
            raise FileFormatError(
                body.where, f"an output '{name}' that nothing computes", "a value of this graph", FIX
            )
    return _order(nodes, uses, makers, at)


def _require_text(where: str, *texts: object) -> None:
    """Refuse bytes, which protobuf hands over where a name is no UTF-8."""
    if not all(isinstance(text, str) for text in texts):
        raise FileFormatError(where, "a name that is no UTF-8", "text", FIX)


def _check_node(node: onnx.NodeProto, visible: _Scope, where: str, rules: _Rules) -> set[str]:
    """Return the names of `visible` that the node and its subgraphs read."""
    NODE_PORTS.check(len(node.input) + len(node.output), where)
    _require_text(where, node.name, node.op_type, node.domain, node.doc_string, *node.input, *node.output)
    used = set(filter(None, node.input))
    for name in node.input:
        if name and name not in visible:
            raise FileFormatError(
                where,
                f"an input '{name}' that nothing defines",
                "an input, an initializer or an output",
                FIX,
            )
    for device in getattr(node, "device_configurations", ()):  # onnx knows them since IR version 11
        if not device.configuration_id:
            raise FileFormatError(where, "devices of no configuration", "the name of one", FIX)
    for attribute in node.attribute:
        _check_attribute(attribute, where, rules)
    check_attributes(node, rules.versions, where)
    for graph in node_graphs(node):
        _check_graph(graph, visible, rules, f"{where}: ")
        used |= _free_names(graph)
    return used


def _check_attribute(attribute: onnx.AttributeProto, where: str, rules: _Rules) -> None:
    at = f"{where}: attribute '{attribute.name}'"
    if not attribute.name or attribute.type not in _ATTRIBUTE_TYPES:
        raise FileFormatError(at, f"type {attribute.type}", "a named attribute of a known type", FIX)
    if attribute.type == onnx.AttributeProto.UNDEFINED and not attribute.ref_attr_name:
        raise FileFormatError(at, "no type", "an attribute with its type", FIX)
    if attribute.ref_attr_name and not rules.in_function:
        raise FileFormatError(at, "a reference outside of functions", "a value", FIX)
    if attribute.ref_attr_name and any(field.name in _VALUES for field, _ in attribute.ListFields()):
        raise FileFormatError(at, "a value beside a reference", "one of them", FIX)
    is_graph = attribute.type == onnx.AttributeProto.GRAPH
    if attribute.graphs and attribute.type != onnx.AttributeProto.GRAPHS:
        raise FileFormatError(at, "graphs beside its value", "graphs in an attribute of type GRAPHS", FIX)
    if not attribute.ref_attr_name and attribute.HasField("g") != is_graph:
        got = (
            "no graph" if is_graph else f"a graph in {onnx.AttributeProto.AttributeType.Name(attribute.type)}"
        )
        raise FileFormatError(at, got, "a graph in an attribute of that type", FIX)
    tensors = [attribute.t] if attribute.type == onnx.AttributeProto.TENSOR else []
    sparse_type = attribute.type == onnx.AttributeProto.SPARSE_TENSOR
    sparses = [attribute.sparse_tensor] if sparse_type else []
    if not attribute.ref_attr_name:
        for tensor in (*tensors, *attribute.tensors):
            rules.tensor(tensor, at)
        for sparse in (*sparses, *attribute.sparse_tensors):
            _check_sparse(sparse, at, rules)


def _free_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names that `graph` reads from outside."""
    used = {name for node in graph.node for name in node.input if name}
    for node in graph.node:
        for inner in node_graphs(node):
            used |= _free_names(inner)
    defined = {name for node in graph.node for name in node.output}
    defined |= {i.name for i in graph.input} | {t.name for t in graph.initializer}
    return used - defined


def _order(nodes: list[onnx.NodeProto], uses: list[set[str]], makers: dict[str, int], at: str) -> list[int]:
    """Sort by Kahn's algorithm, the earliest ready node first, so that a graph in order keeps its order."""
    needs = [{makers[name] for name in used if name in makers} for used in uses]
    if all(max(needed, default=-1) < index for index, needed in enumerate(needs)):
        return list(range(len(nodes)))
    readers: list[list[int]] = [[] for _ in nodes]
    for index, needed in enumerate(needs):
        for maker in needed:
            readers[maker].append(index)
    missing = [len(needed) for needed in needs]
    ready = [index for index, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers[index]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(nodes):
        index = next(i for i, count in enumerate(missing) if count)
        where = node_label(nodes[index], index, at)
        raise FileFormatError(where, "an input that is its own output", "a graph without cycles", FIX)
    return order


def _reorder(stored: MutableSequence[onnx.NodeProto], order: list[int]) -> None:
    if order == sorted(order):
        return
    copies = [onnx.NodeProto() for _ in order]
    for copy, index in zip(copies, order, strict=True):
        copy.CopyFrom(stored[index])
    del stored[:]
    stored.extend(copies)


def _refuse_twice(names: list[str], what: str) -> None:
    for name, count in Counter(names).items():
        if not name or count > 1:
            got = f"the name '{name}' {count} times" if name else "no name"
            raise FileFormatError(what, got, "a name of its own", FIX)


def node_label(node: onnx.NodeProto, index: int, at: str = "") -> str:
    """Return how errors call a node: by its name, or by its operator, first output and place."""
    if node.name:
        return f"{at}node '{node.name}' ({node.op_type})"
    return f"{at}node {index} ({node.op_type or '?'}) of output '{next(iter(node.output), '')}'"
