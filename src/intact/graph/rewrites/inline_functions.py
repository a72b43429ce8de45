"""Inline the functions that a model defines at every call."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
from onnx_ir.passes.common.inliner import InlinePass

from intact.errors import FileFormatError
from intact.graph.core.scene import Note
from intact.graph.ops.attributes import FIX, has_graphs
from intact.graph.opset.upgrade import upgrade_opset


def inline_functions(model: ir.Model) -> list[Note]:
    """Inline the functions that a file defines at every call, in place.

    A node of a body is called as the call and itself: ``block1/conv``. Functions of other opsets are raised
    to the newest of them. Rules then see operators; to ONNX the calls mean the same.

    Guards: a function stays a call where a registered operator has its name, where a graph is one of its
    attributes, or where a domain other than ONNX's has another version in it than in the model.

    Returns:
        One note for each function.
    """
    calls = {identifier for identifier in model.functions if _stays(model, identifier) == ""}
    if not calls:
        return []
    opsets = {graph.opset_imports.get("") for graph in (model.graph, *_bodies(model))} - {None}
    if len(opsets) > 1:
        upgrade_opset(model, max(opset for opset in opsets if opset is not None))
    for graph in (model.graph, *_bodies(model)):
        for node in graph.all_nodes():
            if node.op_identifier() in calls:
                _fit_ports(node, model.functions[node.op_identifier()])
    names = [model.functions[identifier].name for identifier in sorted(calls)]
    _Inline(lambda function: function.identifier() in calls)(model)
    return [Note(name, "its calls are written out") for name in names]


def _fit_ports(call: ir.Node, function: ir.Function) -> None:
    """Give a call the outputs that it leaves out.

    Raises:
        FileFormatError: It has more inputs or outputs than its function.
    """
    for what, arguments, ports in (
        ("inputs", call.inputs, function.inputs), ("outputs", call.outputs, function.outputs),
    ):  # fmt: skip
        if len(arguments) > len(ports):
            raise FileFormatError(
                f"node '{call.name}' ({call.op_type})", f"{len(arguments)} {what}",
                f"at most {len(ports)}, as its function has", FIX,
            )  # fmt: skip
    call.resize_outputs(len(function.outputs))


def _bodies(model: ir.Model) -> list[ir.Graph]:
    return [function.graph for function in model.functions.values()]


def _stays(model: ir.Model, identifier: tuple[str, str, str]) -> str:
    """Return why a function cannot be inlined; "" where it can."""
    function = model.functions[identifier]
    if function.domain and onnx.defs.has(function.name, function.domain):
        return "an operator of this name is registered"
    other_domains = {domain: version for domain, version in function.opset_imports.items() if domain}
    if any(model.opset_imports.get(domain, version) != version for domain, version in other_domains.items()):
        return "it has another version of a domain"
    nodes = (node for graph in (model.graph, *_bodies(model)) for node in graph.all_nodes())
    calls = (node for node in nodes if node.op_identifier() == identifier)
    if any(map(has_graphs, calls)):
        return "a graph is one of its attributes"
    return ""


class _Inline(InlinePass):
    """onnx-ir's pass, which names inlined nodes after their call."""

    def _instantiate_call(self, node: ir.Node, call_site_id: str) -> Any:
        nodes, values = super()._instantiate_call(node, call_site_id)
        body = self._functions[node.op_identifier()]
        for copy, original in zip(nodes, body, strict=True):
            copy.name = f"{node.name or call_site_id}/{original.name or original.op_type}"
        return nodes, values
