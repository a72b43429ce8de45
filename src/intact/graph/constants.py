"""Values of the graph that do not depend on its inputs."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

# Random operators have constant inputs and no constant output.
_NEVER_CONSTANT = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli"}

# Operators that make much of little: one number in a file may ask for all memory.
_GROWING = {"ConstantOfShape", "EyeLike", "Expand", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"}
MAX_GROWN = 2**26
"""Elements up to which the output of such an operator is computed."""


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
        waiting = [value]  # a stack of our own: a chain of constants may be deeper than Python's
        while waiting:
            node = waiting[-1].producer()
            missing = [
                v for v in (node.inputs if node is not None else ()) if v is not None and v not in self._known
            ]
            if missing and waiting[-1].const_value is None:
                waiting.extend(missing)
            else:
                self._compute(waiting.pop())
        return self._known[value]

    def _compute(self, value: ir.Value) -> None:
        if value.const_value is not None:
            self._known[value] = value.const_value.numpy()
        elif value not in self._known:
            node = value.producer()
            assert node is not None
            arrays = _evaluate(node, [None if v is None else self._known[v] for v in node.inputs])
            self._known.update(
                zip(node.outputs, arrays, strict=False)
            )  # outputs left out at the end have none


def _foldable(node: ir.Node) -> bool:
    has_graph = any(
        a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()
    )
    known = node.domain == "" and node.op_type not in _NEVER_CONSTANT and not has_graph
    return known and not (node.op_type in _GROWING and _is_large(node.outputs[0].shape))


def _is_large(shape: ir.Shape | None) -> bool:
    return shape is not None and math.prod(n for n in shape if isinstance(n, int)) > MAX_GROWN


def _evaluate(node: ir.Node, inputs: list[NDArray | None]) -> list[NDArray]:
    """Run one node in ONNX's reference implementation."""
    from onnx.reference import ReferenceEvaluator  # 12 MB of operators, which few models need

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
