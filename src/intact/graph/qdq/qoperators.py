"""Rewrite operators on codes (QLinearConv, QGemm, ...) as float operators between Q/DQ pairs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Inserter
from intact.graph.core.constants import Constants
from intact.graph.core.edit import input_of
from intact.graph.core.quantization_view import is_op
from intact.graph.ops import MICROSOFT, QOperator
from intact.graph.ops.attributes import copy_attributes
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene, Stays

_AXIS_OPSET = 13  # the first whose QuantizeLinear has an axis, and whose Softmax is along one


def _is_quantized_operator(node: ir.Node) -> bool:
    return _form(node) is not None or (node.domain == MICROSOFT and node.op_type.startswith("QLinear"))


def _form(node: ir.Node) -> QOperator | None:
    """Return the record of a node, where it is an operator on codes that the book has."""
    if is_op(node, "QLinearConv", domain=MICROSOFT):  # ONNX's, and it may have its channels last
        return ops.QLinearConv.of(node)
    record = ops.read(node)
    return record if isinstance(record, QOperator) else None


def _write_on_floats(node: ir.Node, scene: Scene) -> Outcome:
    """Write a QOperator as DequantizeLinear, its float operator, QuantizeLinear.

    Before: ``y = QLinearConv(x, x_s, x_z, w, w_s, w_z, y_s, y_z, b)`` on codes.
    After:  ``y = Q(Conv(DQ(x), DQ(w), DQ(b)), y_s, y_z)``; and so for every `QOperator` of the book.

    Both forms mean the same codes; the float32 sums of the one may round differently from the integer sums
    of the other.
    """
    form, op_type = _form(node), node.op_type
    obstacle = "no rule for it" if form is None else _obstacle(node, form, scene.constants)
    if form is None or obstacle:
        return Stays(f"{op_type} stays: {obstacle}")
    insert = scene.inserter(node)
    floats = [input_of(node, at) for at in form.plain]
    floats += [_dequantize_input(node, at, scene) for at in form.data_inputs(node)]
    if form.bias is not None and input_of(node, form.bias) is not None:
        floats.append(_dequantize_bias(node, form, scene))
    output, base = node.outputs[0], node.name or op_type
    y = _float_node(node, form, floats, insert)
    if (scale := input_of(node, form.written)) is not None:
        zero = _zero_point(node, form, insert)
        y = insert.node(
            "QuantizeLinear", [y, scale, zero], f"{base}.codes", dtype=zero.dtype, shape=output.shape
        )
    name, output.name = output.name, None
    scene.replace(node, y)
    y.name = name
    return f"{op_type} became Q/DQ around {form.real}"


def _float_node(node: ir.Node, form: QOperator, floats: list[ir.Value | None], insert: Inserter) -> ir.Value:
    """Return the float operator on `floats`, its channels where ONNX wants them."""
    base, shape, x = node.name or node.op_type, node.outputs[0].shape, floats[0]
    attributes = copy_attributes(node, *_DROPPED)
    if isinstance(form, ops.QLinearSoftmax):
        attributes["axis"] = -1 if form.opset < _AXIS_OPSET or form.axis is None else form.axis
    make = partial(insert.node, dtype=ir.DataType.FLOAT)
    if not form.channels_last:
        return make(form.real, floats, f"{base}.real", shape=shape, **attributes)
    assert x is not None and x.shape is not None
    rank = len(x.shape)
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    floats[0] = make("Transpose", [x], f"{base}.first", shape=None, perm=first)
    y = make(form.real, floats, f"{base}.real", shape=None, **attributes)
    return make("Transpose", [y], f"{base}.last", shape=shape, perm=last)


def _dequantize_input(node: ir.Node, at: int, scene: Scene) -> ir.Value:
    """Return the floats of an input: one DequantizeLinear for all who read the same codes in the same way."""
    codes, scale, zero = input_of(node, at), input_of(node, at + 1), input_of(node, at + 2)
    assert codes is not None
    if (codes, scale, zero) not in scene.added:
        inputs = [codes, scale] if zero is None else [codes, scale, zero]
        scene.added[codes, scale, zero] = scene.inserter(node).node(
            "DequantizeLinear", inputs, f"{codes.name}.real", dtype=ir.DataType.FLOAT, shape=codes.shape,
            **_scale_axis(node, codes, scale, scene.constants),
        )  # fmt: skip
    return scene.added[codes, scale, zero]


def _scale_axis(
    node: ir.Node, codes: ir.Value, scale: ir.Value | None, constants: Constants
) -> dict[str, Any]:
    """Return the attribute `axis` for a vector of scales: the axis of a weight's output channels."""
    array = constants(scale)
    if array is None or array.size == 1:
        return {}
    form = _form(node)
    assert form is not None
    return {"axis": form.scale_axis(2 if codes.shape is None else len(codes.shape))}


def _dequantize_bias(node: ir.Node, form: QOperator, scene: Scene) -> ir.Value:
    """Return the int32 bias behind a DequantizeLinear of scale ``fl32(x_scale * w_scale)``."""
    assert form.bias is not None
    codes, (first, second) = input_of(node, form.bias), form.data_inputs(node)
    x_scale, w_scale = (scene.constants(input_of(node, at + 1)) for at in (first, second))
    assert codes is not None and x_scale is not None and w_scale is not None
    product = np.float32(form.factor) * x_scale.reshape(()).astype(np.float32) * w_scale.astype(np.float32)
    insert = scene.inserter(node)
    scale = insert.constant(f"{codes.name}.scale", product if product.size > 1 else product.reshape(()))
    axis: dict[str, Any] = (
        {"axis": 0 if codes.shape is None else len(codes.shape) - 1} if product.size > 1 else {}
    )
    return insert.node(
        "DequantizeLinear", [codes, scale], f"{codes.name}.real", dtype=ir.DataType.FLOAT,
        shape=codes.shape, **axis,
    )  # fmt: skip


def _zero_point(node: ir.Node, form: QOperator, insert: Inserter) -> ir.Value:
    zero_point_input = input_of(node, form.written + 1)
    if zero_point_input is not None:
        return zero_point_input
    x = input_of(node, form.data_inputs(node)[0])
    dtype = x.dtype if x is not None and x.dtype is not None else ir.DataType.UINT8
    return insert.constant(f"{node.name}.zero_point", np.zeros((), dtype.numpy()))


_DROPPED = ("channels_last", "opset")  # of ONNX Runtime's operators; `_obstacle` has looked at them


def _obstacle(node: ir.Node, form: QOperator, constants: Constants) -> str:
    """Return why `node` cannot be rewritten; "" where it can."""
    scales = [constants(input_of(node, at + 1)) for at in form.data_inputs(node)]
    if any(scale is None for scale in scales):
        return "its scales are not constant"
    if not isinstance(form, ops.QLinearConcat) and any(s is not None and s.size > 1 for s in scales[:1]):
        return "its first input has several scales"
    x = input_of(node, form.data_inputs(node)[0])
    rank = len(x.shape) if x is not None and x.shape is not None else None
    if form.channels_last and rank is None:
        return "its channels are last, and its rank is not known"
    if isinstance(form, ops.QLinearSoftmax) and form.opset < 13 and not form.is_along_last(rank):
        return "it is the Softmax of an opset before 13, over several axes"
    return ""


QOPERATORS = Rewrite(
    "write operators on codes as Q/DQ", _write_on_floats, (), ("", MICROSOFT), _is_quantized_operator,
    requires=Requires(opset=_AXIS_OPSET), ensures=Ensures(gone=True),
)  # fmt: skip
