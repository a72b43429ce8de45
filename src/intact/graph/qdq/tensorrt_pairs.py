"""Rewrite Q/DQ pairs of TensorRT's domain "trt", as NVIDIA's ModelOpt exports FP8 and INT4, as ONNX's.

Source: the importers of onnx-tensorrt (TRT_FP8QuantizeLinear, TRT_INT4QuantizeLinear and their inverses), and
ModelOpt's exporter, which writes codes of FP8 as uint8.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir

from intact.graph.core.edit import input_of
from intact.graph.ops.attributes import names, take, values
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene, Stays

_T = ir.DataType
DOMAIN = "trt"

_CODES = {
    "TRT_FP8QuantizeLinear": _T.FLOAT8E4M3FN, "TRT_FP8DequantizeLinear": _T.FLOAT8E4M3FN,
    "TRT_INT4QuantizeLinear": _T.INT4, "TRT_INT4DequantizeLinear": _T.INT4,
    "QuantizeLinear": None, "DequantizeLinear": None,
}  # fmt: skip
"""Operator -> the type of its codes; None: its zero point or its attributes say it."""


def _take_standard_operator(node: ir.Node, scene: Scene) -> Outcome:
    """Replace TensorRT's quantizers by ONNX's own.

    Before: ``trt::TRT_FP8DequantizeLinear(trt::TRT_FP8QuantizeLinear(x, s), s)``.  After: ONNX's pair, with
    zero points of float8e4m3fn.

    Guards: its attributes are those of ONNX's operators, and it says its type.
    """
    unknown = names(node) - {"axis", "block_size", "saturate", "output_dtype"}
    if unknown or len(node.inputs) < 2 or node.inputs[0] is None or node.inputs[1] is None:
        return Stays(f"it has {', '.join(sorted(unknown)) or 'no scale'}")
    quantizes = "Dequantize" not in node.op_type
    codes = _CODES[node.op_type] or _type_of_codes(node, quantizes)
    data, scale = node.inputs[:2]
    if codes is None or scale.shape is None or not all(isinstance(n, int) for n in scale.shape):  # type: ignore[union-attr]
        return Stays("neither its zero point nor its attributes say what its codes are")
    if quantizes:
        node.outputs[0].dtype = codes
        if input_of(node, 2) is None:
            zeros = np.zeros(tuple(scale.shape), codes.numpy())  # type: ignore[union-attr]
            zero = scene.inserter(node).constant(f"{node.name}.zero_point", zeros, codes)
            node.resize_inputs(3)
            node.replace_input_with(2, zero)
    elif data is not None and data.dtype == _T.UINT8 and codes == _T.FLOAT8E4M3FN:
        stored = scene.constants(data)
        if stored is not None:
            floats = stored.view(ml_dtypes.float8_e4m3fn)
            node.replace_input_with(0, scene.inserter(node).constant(f"{data.name}.fp8", floats, codes))
        else:
            data.dtype = codes
    output_dtype = take(node, "output_dtype")
    if not quantizes and output_dtype is not None:
        node.outputs[0].dtype = _T(output_dtype.as_int())
    if codes != _T.FLOAT8E4M3FN or not quantizes:
        take(node, "saturate")
    node.domain, node.op_type = "", "QuantizeLinear" if quantizes else "DequantizeLinear"
    return "TensorRT's operator became ONNX's"


def _type_of_codes(node: ir.Node, quantizes: bool) -> ir.DataType | None:
    """Return the type that a node without a type in its name says; None where it says none."""
    zero = input_of(node, 2)
    if zero is not None:
        return zero.dtype
    if not quantizes:
        data = node.inputs[0]
        return None if data is None else data.dtype
    if "output_dtype" in names(node):
        return _T(int(values(node)["output_dtype"]))
    return _T.FLOAT8E4M3FN if "saturate" in names(node) else node.outputs[0].dtype


TENSORRT_PAIRS = Rewrite(
    "write pairs of TensorRT as ONNX's", _take_standard_operator, tuple(_CODES), (DOMAIN,),
    requires=Requires(opset=21), ensures=Ensures(gone=True, shapes=True),
)  # fmt: skip
