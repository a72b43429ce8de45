"""The one builder of ONNX models for tests; where a text suffices, `onnx.parser.parse_model` does as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | str | None] | None
Ports = Mapping[str, Shape | tuple[int, Shape]] | Sequence[onnx.ValueInfoProto]
"""By name: the shape of a float32 tensor, a list, or a tuple of ONNX's element type and the shape."""

Arrays = Mapping[str, Any] | Sequence[onnx.TensorProto]


def onnx_graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Ports = (),
    outputs: Ports = (),
    initializers: Arrays = (),
    *,
    name: str = "g",
    values: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.GraphProto:
    """Build a graph: a model's own, or a branch or a body.

    Args:
        nodes: In order.
        inputs, outputs: As `Ports` says.
        initializers: Arrays by name, or tensors.
        name: Of the graph.
        values: Declared types of values within.
    """
    stored = (
        [numpy_helper.from_array(np.asarray(array), key) for key, array in initializers.items()]
        if isinstance(initializers, Mapping)
        else initializers
    )
    return helper.make_graph(nodes, name, _infos(inputs), _infos(outputs), stored, value_info=list(values))


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Ports = (),
    outputs: Ports = (),
    initializers: Arrays = (),
    *,
    opset: int = 17,
    domains: Mapping[str, int] | None = None,
    ir_version: int | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    name: str = "g",
    values: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    """Build a model, unchecked.

    Args:
        nodes, inputs, outputs, initializers, name, values: As for `onnx_graph`.
        opset: Of ONNX's own operators.
        domains: Versions of other operator sets; under "" of ONNX's own.
        ir_version: By default the oldest that knows the opset.
        functions: Of the model.
    """
    graph = onnx_graph(nodes, inputs, outputs, initializers, name=name, values=values)
    versions = {"": opset, **(domains or {})}
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    if ir_version is None:
        ir_version = helper.find_min_ir_version_for(opsets[:1])
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, functions=list(functions))


def _infos(ports: Ports) -> Sequence[onnx.ValueInfoProto]:
    if not isinstance(ports, Mapping):
        return ports
    typed = {
        name: port if isinstance(port, tuple) else (TensorProto.FLOAT, port) for name, port in ports.items()
    }
    return [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in typed.items()]


def uneven_products(width: int, layers: int) -> onnx.ModelProto:
    """Build products with Relus between them, x to y [n, width].

    One channel of the second's input is 60 times the others.
    """
    rng = np.random.default_rng(0)
    nodes, weights, value = [], dict[str, Any](), "x"
    for layer in range(layers):
        weight = (rng.standard_normal((width, width)) / np.sqrt(width / 2)).astype(np.float32)
        weight[:, 0] *= 60 if layer == 0 else 1
        weight[0] /= 60 if layer == 1 else 1
        weights[f"w{layer}"] = weight
        result = "y" if layer == layers - 1 else f"h{layer}"
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [result], name=f"/fc{layer}"))
        if result != "y":
            nodes.append(helper.make_node("Relu", [result], [f"r{layer}"], name=f"/relu{layer}"))
        value = f"r{layer}"
    return onnx_model(nodes, {"x": ["n", width]}, {"y": ["n", width]}, weights)
