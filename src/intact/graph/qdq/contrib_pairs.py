"""Rewrite Q/DQ pairs of com.microsoft as ONNX's: ORT's quantizer writes 16 bits so below opset 21."""

from __future__ import annotations

import onnx_ir as ir

from intact.graph.core.quantization_view import is_op
from intact.graph.ops import MICROSOFT
from intact.graph.ops.attributes import names
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene

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
