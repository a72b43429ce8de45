"""What INTact adds to onnx-ir: markers, Q/DQ emission for a chosen opset, safe writing, running.

The graph in memory is onnx-ir's Model. This is the only room that imports onnx and onnx_ir.
"""

from intact.graph.emit_qdq import FORMAT_OPSETS, QUANTIZER_KEY, Pair, emit_qdq
from intact.graph.io import parse_model, read_model, tidy, to_bytes, write_model
from intact.graph.markers import marker_schema
from intact.graph.opset import MAX_OPSET, MIN_OPSET, NATIVE_OPSET, check_opset, set_opset
from intact.graph.run import Session

__all__ = [
    "FORMAT_OPSETS",
    "MAX_OPSET",
    "MIN_OPSET",
    "NATIVE_OPSET",
    "Pair",
    "QUANTIZER_KEY",
    "Session",
    "check_opset",
    "emit_qdq",
    "marker_schema",
    "parse_model",
    "read_model",
    "set_opset",
    "tidy",
    "to_bytes",
    "write_model",
]
