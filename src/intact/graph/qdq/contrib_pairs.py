"""Rewrite Q/DQ pairs of other domains as ONNX's: com.microsoft's and TensorRT's.

ONNX Runtime's quantizer writes 16 bits so below opset 21, NVIDIA's ModelOpt FP8 and INT4. Source: the
importers of onnx-tensorrt (TRT_FP8QuantizeLinear, TRT_INT4QuantizeLinear and their inverses), and ModelOpt's
exporter, which writes codes of FP8 as uint8.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.edit import input_of
from intact.graph.core.quantization_view import is_op
from intact.graph.ops import MICROSOFT
from intact.graph.ops.attributes import names, take
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene, Stays

_T = ir.DataType
_OPSETS = {_T.INT8: 13, _T.UINT8: 13, _T.INT32: 13, _T.INT16: 21, _T.UINT16: 21, _T.INT4: 21, _T.UINT4: 21}
"""The first opset of ONNX whose operators read these codes along an axis."""


def _take_standard_operator(node: ir.Node, scene: Scene) -> Outcome:
    """Replace Microsoft's quantizers by ONNX's own.

    Before: ``com.microsoft.DequantizeLinear(q, s, z)``.  After: ONNX's own, which means the same.

    Guards: its types are ONNX's, and its scale is float32.
    """
    codes = _codes(node)
    assert codes is not None
    node.domain = ""
    for value in node.outputs:
        value.dtype = codes if node.op_type == "QuantizeLinear" else _T.FLOAT
    return f"{MICROSOFT}'s {node.op_type} became ONNX's"


def _codes(node: ir.Node) -> ir.DataType | None:
    """Return the type of the codes of such a node; None for any other."""
    if not is_op(node, "QuantizeLinear", "DequantizeLinear", domain=MICROSOFT):
        return None
    if not names(node) <= {"axis"} or len(node.inputs) < 2:
        return None
    data, scale, zero = (*node.inputs, None)[:3]
    if scale is None or scale.dtype != _T.FLOAT:
        return None
    typed_value = zero if zero is not None else data if node.op_type == "DequantizeLinear" else None
    codes = typed_value.dtype if typed_value is not None else _T.UINT8
    return codes if codes in _OPSETS and (codes, node.op_type) != (_T.INT32, "QuantizeLinear") else None


def _pairs_of(opset: int) -> Rewrite:
    """Return the rewrite of pairs whose codes ONNX's operators read since `opset`."""
    return Rewrite(
        f"write pairs of ONNX Runtime as ONNX's of opset {opset}", _take_standard_operator,
        ("QuantizeLinear", "DequantizeLinear"), (MICROSOFT,),
        matches=lambda node: _OPSETS.get(_codes(node)) == opset,  # type: ignore[arg-type]
        requires=Requires(opset=opset), ensures=Ensures(gone=True, shapes=True),
    )  # fmt: skip


CONTRIB_PAIRS = tuple(_pairs_of(opset) for opset in sorted({*_OPSETS.values()}))


# ---- TensorRT's ----

TENSORRT = "trt"

_TENSORRT_CODES = {
    "TRT_FP8QuantizeLinear": _T.FLOAT8E4M3FN, "TRT_FP8DequantizeLinear": _T.FLOAT8E4M3FN,
    "TRT_INT4QuantizeLinear": _T.INT4, "TRT_INT4DequantizeLinear": _T.INT4,
    "QuantizeLinear": None, "DequantizeLinear": None,
}  # fmt: skip
"""Operator -> the type of its codes; None: its zero point or its attributes say it."""


def _take_tensorrts_operator(node: ir.Node, scene: Scene) -> Outcome:
    """Replace TensorRT's quantizers by ONNX's own.

    Before: ``trt::TRT_FP8DequantizeLinear(trt::TRT_FP8QuantizeLinear(x, s), s)``.  After: ONNX's pair, with
    zero points of float8e4m3fn.

    Guards: its attributes are those of ONNX's operators, and it says its type.
    """
    unknown = names(node) - {"axis", "block_size", "saturate", "output_dtype"}
    if unknown or len(node.inputs) < 2 or node.inputs[0] is None or node.inputs[1] is None:
        return Stays(f"it has {', '.join(sorted(unknown)) or 'no scale'}")
    quantizes = "Dequantize" not in node.op_type
    codes = _TENSORRT_CODES[node.op_type] or _type_of_codes(node, quantizes)
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
    stated = ops.QuantizeLinear.of(node).output_dtype
    if stated:
        return _T(stated)
    return _T.FLOAT8E4M3FN if "saturate" in names(node) else node.outputs[0].dtype


TENSORRT_PAIRS = Rewrite(
    "write pairs of TensorRT as ONNX's", _take_tensorrts_operator, tuple(_TENSORRT_CODES), (TENSORRT,),
    requires=Requires(opset=21), ensures=Ensures(gone=True, shapes=True),
)  # fmt: skip
