"""Models as older exporters wrote them."""

from __future__ import annotations

import onnx


def old(body: str, opset: int, ir_version: int = 4) -> onnx.ModelProto:
    """Nodes in ONNX's text form that make y, of any shape, of the floats x [2, 4, 5, 6]."""
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
    proto = onnx.parser.parse_model(f"{head} g (float[2,4,5,6] x) => (float[] y) {{ {body} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto
