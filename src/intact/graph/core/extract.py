"""Extract a part of a graph as a model of its own, and find the nodes on all paths between two sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx
import onnx_ir as ir

from intact.errors import UnsupportedError
from intact.graph.core.proto import to_proto

_MOST_BYTES = 2**29
"""Of constants in a small part: protobuf holds 2 GB."""


def cut(model: ir.Model, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> bytes:
    """Extract the part that computes `outputs` from `inputs`, with its constants, as the bytes of a file.

    Args:
        model: Not changed.
        inputs, outputs: Values of its main graph; the outputs depend on nothing but the inputs and constants.
    """
    return bytes(to_proto(part(model, inputs, outputs)).SerializeToString(deterministic=True))


def part(model: ir.Model, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> ir.Model:
    """Extract the same part as a model in memory, which shares its weights with `model`."""
    graph = ir.convenience.extract(model.graph, list(inputs), list(outputs))
    initializers = sorted(
        graph.initializers.values(), key=lambda value: value.name or ""
    )  # onnx-ir's order varies
    graph.initializers.clear()
    for value in initializers:
        graph.register_initializer(value)
    return ir.Model(graph, ir_version=model.ir_version, functions=list(model.functions.values()))


def cut_nodes(
    model: ir.Model, nodes: Iterable[ir.Node], inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]
) -> bytes:
    """Extract a few nodes with their constants, as the bytes of a file; `cut` walks the whole graph.

    Args:
        model: Not changed; functions of the file are left out.
        nodes: Of its main graph, in topological order.
        inputs: Values that these nodes read and do not make; they have types.
        outputs: Values that they make.
    Raises:
        UnsupportedError: Their constants are too large.
    """
    graph = onnx.GraphProto(name="part")
    constants = dict[ir.Value, None]()
    for node in nodes:
        graph.node.append(ir.serde.serialize_node(node))
        constants.update((x, None) for x in node.inputs if x is not None and x.const_value is not None)
    tensors = {
        value: value.const_value for value in constants
        if value.producer() is None and value not in set(inputs) and value.const_value is not None
    }  # fmt: skip
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > _MOST_BYTES:
        raise UnsupportedError(
            "graph", f"{size:,} bytes of constants", f"at most {_MOST_BYTES:,}", "export it again"
        )
    for value, tensor in tensors.items():
        stored = ir.serde.serialize_tensor(ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=value.name))
        graph.initializer.append(stored)
    for ports, values in ((graph.input, inputs), (graph.output, outputs)):
        for value in values:
            kind = 0 if value.dtype is None else int(value.dtype)
            ports.append(onnx.helper.make_tensor_value_info(str(value.name), kind, None))
    opsets = [
        onnx.helper.make_opsetid(domain, version) for domain, version in model.graph.opset_imports.items()
    ]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)
    return bytes(proto.SerializeToString(deterministic=True))


def nodes_between(graph: ir.Graph, starts: Iterable[ir.Node], ends: Iterable[ir.Node]) -> list[ir.Node]:
    """List the nodes on all paths from `starts` to `ends`, both included, in the graph's order.

    Args:
        graph: Its own nodes, not those of graphs inside.
        starts, ends: Nodes of it.
    """
    behind, before = (
        _reachable_nodes(starts, ir.Node.successors),
        _reachable_nodes(ends, ir.Node.predecessors),
    )
    return [node for node in graph if node in behind and node in before]


def _reachable_nodes(
    nodes: Iterable[ir.Node], neighbours: Callable[[ir.Node], Iterable[ir.Node]]
) -> set[ir.Node]:
    reached, waiting = set[ir.Node](), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += neighbours(node)
    return reached
