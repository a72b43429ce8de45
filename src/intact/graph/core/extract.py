"""Extract a part of a graph as a model of its own."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from intact.graph.core.proto import to_proto


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
