"""Values of the graph that do not depend on its inputs."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

# Random operators have constant inputs and no constant output.
_NEVER_CONSTANT = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli"}


class Constants:
    """The constant values of a graph: initializers, Constant nodes, and operators on them.

    An exporter leaves, for example, the Concat of two weight matrices, or the Mul of an amax and a factor.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self._known: dict[ir.Value, NDArray] = {}
        self._constant = {v for v in graph.initializers.values() if not v.is_graph_input()}
        for node in graph:  # in topological order, so that one pass is enough
            if _foldable(node) and all(v is None or v in self._constant for v in node.inputs):
                self._constant.update(node.outputs)

    def __contains__(self, value: object) -> bool:
        """Whether `value` is constant; computes nothing."""
        return value in self._constant

    def __call__(self, value: ir.Value | None) -> NDArray | None:
        """What `value` always is, in its shape and dtype, or None where it depends on a graph input."""
        if value is None or value not in self._constant:
            return None
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: ir.Value) -> NDArray:
        if value.const_value is not None:
            return value.const_value.numpy()
        node, index = value.producer(), value.index()
        assert node is not None and index is not None
        return _evaluate(node, [self(v) for v in node.inputs])[index]


def _foldable(node: ir.Node) -> bool:
    has_graph = any(
        a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()
    )
    return node.domain == "" and node.op_type not in _NEVER_CONSTANT and not has_graph


def _evaluate(node: ir.Node, inputs: list[NDArray | None]) -> list[NDArray]:
    """Run one node in ONNX's reference implementation."""
    names = ["" if array is None else f"i{k}" for k, array in enumerate(inputs)]
    feeds = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    outputs = [f"o{k}" for k in range(len(node.outputs))]
    proto = ir.to_proto(node)
    bare = onnx.helper.make_node(node.op_type, names, outputs)
    bare.attribute.extend(proto.attribute)
    unknown = onnx.TypeProto()
    graph = onnx.helper.make_graph(
        [bare],
        "constant",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in feeds.items()
        ],
        [onnx.helper.make_value_info(name, unknown) for name in outputs],
    )
    opset = (node.graph.opset_imports.get("") if node.graph is not None else None) or node.version or 18
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return [np.asarray(array) for array in ReferenceEvaluator(model).run(None, feeds)]
