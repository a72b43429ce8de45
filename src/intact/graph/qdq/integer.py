"""Integer operators and uint8 weights in the form of Q/DQ."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph.core.build import Inserter, Namer, drop_unused, replace
from intact.graph.core.constants import Constants
from intact.graph.core.notes import Note
from intact.graph.core.view import is_op

_FLOAT = ir.DataType.FLOAT

INTEGER = ("MatMulInteger", "ConvInteger")
_MIDDLE = 128  # what uint8 codes are above the int8 codes of the same floats


def rewrite_integer(node: ir.Node, constants: Constants, names: Namer) -> Note:
    """A static MatMulInteger or ConvInteger as the MatMul or Conv that it stands for, in place.

    Before: ``y = Mul(Cast(MatMulInteger(Q(x, s, z), w, z, w_z)), c)``.
    After:  ``y = MatMul(DQ(Q(x, s, z), s, z), DQ(w, c / s, w_z))``.

    Guards: the first input comes from a QuantizeLinear with one constant scale (not from a
    DynamicQuantizeLinear), the weight and `c` are constant, and nobody else reads the integers.
    """
    name, op_type = node.name or node.op_type, node.op_type
    found = _scaled(node, constants)
    if isinstance(found, str):
        return Note(name, f"{op_type} stays: {found}", changed=False)
    last, weight_scale = found
    codes, weight = node.inputs[0], node.inputs[1]
    assert codes is not None and weight is not None
    quantize = codes.producer()
    assert quantize is not None
    insert, output = Inserter(_graph(node), node, names), last.outputs[0]
    scale = insert.constant(f"{weight.name}.scale", weight_scale)
    axis: dict[str, Any] = {}
    if weight_scale.ndim:
        axis["axis"] = 0 if op_type == "ConvInteger" else len(weight.shape or (0, 0)) - 1
    zero = node.inputs[3] if len(node.inputs) > 3 else None
    zeros = constants(zero)
    if weight_scale.ndim and zeros is not None:
        zero = insert.constant(f"{weight.name}.zero_points", np.broadcast_to(zeros, weight_scale.shape))
    floats = [
        insert.node(
            "DequantizeLinear", inputs, f"{value.name}.real", dtype=_FLOAT, shape=value.shape, **attributes
        )
        for value, inputs, attributes in (
            (codes, [codes, *quantize.inputs[1:]], {}),
            (weight, [weight, scale] if zero is None else [weight, scale, zero], axis),
        )
    ]
    attributes: dict[str, Any] = dict(node.attributes)
    real_type = op_type.removesuffix("Integer")
    y = insert.node(real_type, floats, f"{name}.real", dtype=_FLOAT, shape=output.shape, **attributes)
    cast = next(iter(node.outputs[0].consumers()))
    replace(last, y, names)
    for spent in (cast, node):
        _graph(spent).remove(spent, safe=True)
    return Note(name, f"{op_type} became Q/DQ around {real_type}")


def _graph(node: ir.Node) -> ir.Graph:
    assert isinstance(node.graph, ir.Graph)
    return node.graph


def _scaled(node: ir.Node, constants: Constants) -> tuple[ir.Node, NDArray[np.float32]] | str:
    """The Mul that makes floats of the sum, and the weight's scale: its factor over the input's scale."""
    quantize = node.inputs[0].producer() if node.inputs[0] is not None else None
    if quantize is None or not is_op(quantize, "QuantizeLinear"):
        return "its input is quantized anew for each batch, or by no QuantizeLinear"
    scale = constants(quantize.inputs[1])
    if scale is None or scale.size != 1 or node.inputs[1] not in constants:
        return "its scale or weight is not one constant"
    cast = _only_reader(node, "Cast")
    product = _only_reader(cast, "Mul") if cast is not None else None
    if cast is None or product is None:
        return "no Cast and Mul that give its sum a scale"
    factor = constants(product.inputs[1 if product.inputs[0] is cast.outputs[0] else 0])
    if factor is None or factor.dtype != np.float32:
        return "the factor of its sum is not a float32 constant"
    weight_scale = (factor / scale.reshape(())).astype(np.float32)
    if weight_scale.size == 1:
        return product, weight_scale.reshape(())
    per_column = is_op(node, "MatMulInteger") and weight_scale.shape[-1] == weight_scale.size
    per_channel = (
        is_op(node, "ConvInteger") and weight_scale.ndim > 1 and weight_scale.shape[1] == weight_scale.size
    )
    if not (per_column or per_channel):
        return "the factors of its sum do not belong to its output channels"
    return product, weight_scale.reshape(-1)


def _only_reader(node: ir.Node, op_type: str) -> ir.Node | None:
    output = node.outputs[0]
    readers = list(output.consumers())
    if output.is_graph_output() or len(output.uses()) != 1 or not is_op(readers[0], op_type):
        return None
    return readers[0]


def shift_weights(graph: ir.Graph, names: Namer) -> list[Note]:
    """Constant uint8 codes behind a DequantizeLinear as int8 ones of the same floats, in place."""
    notes = []
    shifted: dict[ir.Value, ir.Value] = {}
    for node in list(graph):
        codes = node.inputs[0] if is_op(node, "DequantizeLinear") else None
        if (
            codes is None
            or codes.const_value is None
            or codes.dtype != ir.DataType.UINT8
            or codes.is_graph_input()
        ):
            continue
        zero = node.inputs[2] if len(node.inputs) > 2 else None
        if zero is not None and zero.const_value is None:
            continue
        insert = Inserter(graph, node, names)
        for value in filter(None, (codes, zero)):
            if value not in shifted:
                shifted[value] = insert.constant(f"{value.name}.int8", _shifted(value.const_value))
        if zero is None:
            assert node.inputs[1] is not None
            shape = node.inputs[1].shape
            new_zero = insert.constant(
                f"{codes.name}.zero_point", np.full(shape.numpy() if shape else (), -_MIDDLE, np.int8)
            )
        else:
            new_zero = shifted[zero]
        node.resize_inputs(3)
        node.replace_input_with(0, shifted[codes])
        node.replace_input_with(2, new_zero)
        notes.append(Note(node.name or "", f"the uint8 weight '{codes.name}' became int8"))
    drop_unused(graph, *shifted)
    return notes


def _shifted(tensor: ir.TensorProtocol | None) -> NDArray[np.int8]:
    assert tensor is not None
    return (tensor.numpy().astype(np.int16) - _MIDDLE).astype(np.int8)
