"""Infers operators whose result has the type and shape of their first input, which ONNX's inference lacks.

Their definitions are functions that depend on attributes and types, which the inference does not look into.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from intact.graph.core.proto import proto_graphs

LIKE_FIRST = frozenset({"GroupNormalization", "MeanVarianceNormalization", "Swish"})


def with_results_like_first(
    skeleton: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> onnx.ModelProto:
    """Infer shapes of `skeleton`, those of `LIKE_FIRST` too: an Identity stands for each meanwhile.

    Args:
        skeleton: The model; it is as before when this returns.
        infer: ONNX's shape inference.
    """
    originals: dict[str, onnx.NodeProto] = {}
    nodes = [node for graph in proto_graphs(skeleton) for node in graph.node if _is_like_first(node)]
    if not nodes:
        return infer(skeleton)
    for node in nodes:
        originals[node.output[0]] = onnx.NodeProto()
        originals[node.output[0]].CopyFrom(node)
        node.op_type = "Identity"
        del node.input[1:], node.attribute[:]
    try:
        inferred_model = infer(skeleton)
    finally:
        for node in nodes:
            node.CopyFrom(originals[node.output[0]])
    for graph in proto_graphs(inferred_model):
        for node in graph.node:
            if node.op_type == "Identity" and node.output[0] in originals:
                node.CopyFrom(originals[node.output[0]])
    return inferred_model


def _is_like_first(node: onnx.NodeProto) -> bool:
    return node.op_type in LIKE_FIRST and not node.domain and bool(node.input) and len(node.output) == 1
