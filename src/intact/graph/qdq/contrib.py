"""Pairs of ONNX Runtime's own domain: how its quantizer writes 16 bits in files below opset 21."""

from __future__ import annotations

import onnx_ir as ir

from intact.graph.core.notes import Note
from intact.graph.core.proto import forget_domain
from intact.graph.core.view import is_op
from intact.graph.infer.inference import refresh_shapes
from intact.graph.ops import MICROSOFT
from intact.graph.opset.raising import raise_opset

_T = ir.DataType
_OPSETS = {_T.INT8: 13, _T.UINT8: 13, _T.INT32: 13, _T.INT16: 21, _T.UINT16: 21, _T.INT4: 21, _T.UINT4: 21}
"""The first opset of ONNX whose operators read these codes along an axis."""


def rewrite_contrib_pairs(model: ir.Model) -> list[Note]:
    """Before: ``com.microsoft.DequantizeLinear(q, s, z)``.  After: ONNX's own, which means the same.

    In place; the opset is raised to the first that has the types. A pair of other types, or that is not of
    float32, stays.
    """
    found = {node: codes for node in model.graph if (codes := _codes(node)) is not None}
    if not found:
        return []
    raise_opset(model, max(_OPSETS[codes] for codes in found.values()))
    notes = []
    for node, codes in found.items():
        node.domain = ""
        for value in node.outputs:
            value.dtype = codes if node.op_type == "QuantizeLinear" else _T.FLOAT
        notes.append(Note(node.name or node.op_type, f"{MICROSOFT}'s {node.op_type} became ONNX's"))
    forget_domain(model, MICROSOFT)
    refresh_shapes(model)
    return notes


def _codes(node: ir.Node) -> ir.DataType | None:
    """The type of the codes of such a node; None for any other."""
    if not is_op(node, "QuantizeLinear", "DequantizeLinear", domain=MICROSOFT):
        return None
    if not node.attributes.keys() <= {"axis"} or len(node.inputs) < 2:
        return None
    data, scale, zero = (*node.inputs, None)[:3]
    if scale is None or scale.dtype != _T.FLOAT:
        return None
    given = zero if zero is not None else data if node.op_type == "DequantizeLinear" else None
    codes = given.dtype if given is not None else _T.UINT8
    return codes if codes in _OPSETS and (codes, node.op_type) != (_T.INT32, "QuantizeLinear") else None
