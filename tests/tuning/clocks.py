"""A clock that does not tick."""

from __future__ import annotations

import onnx


def steady(model: onnx.ModelProto) -> float:
    """A microsecond for each quantized product, ten for each in float, three for each QuantizeLinear."""
    quantized = {node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    slow = sum(not quantized.issuperset(node.input) for node in products)
    pairs = sum(node.op_type == "QuantizeLinear" for node in model.graph.node)
    return 1e-6 * (len(products) - slow + 10 * slow + 3 * pairs + 1)


steady.key = "a clock that does not tick"  # type: ignore[attr-defined]
