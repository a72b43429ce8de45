"""Rewrite MatMulInteger and ConvInteger as Q/DQ, and uint8 weights as int8."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph.core.build import drop_unused
from intact.graph.core.constants import Constants
from intact.graph.core.edit import input_of
from intact.graph.core.quantization_view import is_op, only_reader
from intact.graph.ops import MICROSOFT
from intact.graph.ops.attributes import copy_attributes
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene, Stays

_FLOAT = ir.DataType.FLOAT

_MIDDLE = 128  # what uint8 codes are above the int8 codes of the same floats


def _write_on_floats(node: ir.Node, scene: Scene) -> Outcome:
    """Write a static MatMulInteger or ConvInteger as MatMul or Conv.

    Before: ``y = Mul(Cast(MatMulInteger(Q(x, s, z), w, x_z, w_z)), c)``.
    After:  ``y = MatMul(DQ(Q(x, s, z), s, x_z), DQ(w, c / s, w_z))``.

    Guards: the first input comes from a QuantizeLinear with one constant scale (not from a
    DynamicQuantizeLinear), the weight, `x_z` and `c` are constant, and nobody else reads the integers.
    """
    op_type, constants = node.op_type, scene.constants
    product = _find_scale(node, constants)
    if isinstance(product, str):
        return Stays(f"{op_type} stays: {product}")
    last, weight_scale = product
    codes, weight = node.inputs[0], node.inputs[1]
    assert codes is not None and weight is not None
    quantize = codes.producer()
    assert quantize is not None
    insert, output = scene.inserter(node), last.outputs[0]
    zero, zeros = input_of(node, 3), constants(input_of(node, 3))
    if zeros is not None and zeros.ndim == 1 and zeros.size > 1 and not weight_scale.ndim:
        weight_scale = np.full(zeros.shape, weight_scale)
    scale = insert.constant(f"{weight.name}.scale", weight_scale)
    axis: dict[str, Any] = {}
    if weight_scale.ndim:
        axis["axis"] = 0 if op_type == "ConvInteger" else len(weight.shape or (0, 0)) - 1
    if weight_scale.ndim and zeros is not None:
        zero = insert.constant(f"{weight.name}.zero_points", np.broadcast_to(zeros, weight_scale.shape))
    floats = [
        insert.node(
            "DequantizeLinear", inputs, f"{value.name}.real", dtype=_FLOAT, shape=value.shape, **attributes
        )
        for value, inputs, attributes in (
            (codes, [codes, quantize.inputs[1], *_zero_of_codes(node, quantize, scene)], {}),
            (weight, [weight, scale] if zero is None else [weight, scale, zero], axis),
        )
    ]
    real_type = op_type.removesuffix("Integer")
    name = f"{node.name or op_type}.real"
    y = insert.node(real_type, floats, name, dtype=_FLOAT, shape=output.shape, **copy_attributes(node))
    cast = next(iter(node.outputs[0].consumers()))
    scene.replace(last, y)
    for spent in (cast, node):
        scene.graph.remove(spent, safe=True)
    return f"{op_type} became Q/DQ around {real_type}"


def _zero_of_codes(node: ir.Node, quantize: ir.Node, scene: Scene) -> list[ir.Value]:
    """Return the zero point that a layer says of its first input, which need not be the quantizer's."""
    value = input_of(node, 2)
    array, scale = scene.constants(value), scene.constants(quantize.inputs[1])
    if value is None or array is None or scale is None:
        return []
    if value is input_of(quantize, 2):
        return [value]
    return [scene.inserter(node).constant(f"{value.name}.of_codes", array.reshape(scale.shape))]


def _find_scale(node: ir.Node, constants: Constants) -> tuple[ir.Node, NDArray[np.float32]] | str:
    """Find the Mul that makes floats of the sum, and the weight's scale: its factor over the input's
    scale."""
    quantize = node.inputs[0].producer() if node.inputs[0] is not None else None
    if quantize is None or not is_op(quantize, "QuantizeLinear"):
        return "its input is quantized anew for each batch, or by no QuantizeLinear"
    scale = constants(quantize.inputs[1])
    if scale is None or scale.size != 1 or node.inputs[1] not in constants:
        return "its scale or weight is not one constant"
    zero = constants(input_of(node, 2))
    if input_of(node, 2) is not None and (zero is None or zero.size != 1):
        return "its input's zero point is not one constant"
    cast = only_reader(node.outputs[0], "Cast")
    product = only_reader(cast.outputs[0], "Mul") if cast is not None else None
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


def _shift_weight(node: ir.Node, scene: Scene) -> Outcome:
    """Shift uint8 weights to int8.

    Before: ``DQ(w, s, z)``, uint8 w and z.  After: ``DQ(w - 128, s, z - 128)``, int8: the same floats.

    Guards: codes and zero point are initializers.
    """
    codes, zero = node.inputs[0], node.inputs[2] if len(node.inputs) > 2 else None
    assert codes is not None
    if zero is not None and zero.const_value is None:
        return None
    insert = scene.inserter(node)
    for value in filter(None, (codes, zero)):
        if value not in scene.added:
            scene.added[value] = insert.constant(f"{value.name}.int8", _as_int8(value.const_value))
    if zero is None:
        assert node.inputs[1] is not None
        shape = node.inputs[1].shape
        middle = np.full(shape.numpy() if shape else (), -_MIDDLE, np.int8)
        new_zero = insert.constant(f"{codes.name}.zero_point", middle)
    else:
        new_zero = scene.added[zero]
    node.resize_inputs(3)
    node.replace_input_with(0, scene.added[codes])
    node.replace_input_with(2, new_zero)
    drop_unused(scene.graph, codes, zero)
    return f"the uint8 weight '{codes.name}' became int8"


def _has_uint8_weight(node: ir.Node) -> bool:
    codes = node.inputs[0]
    return (
        codes is not None and codes.const_value is not None and codes.dtype == ir.DataType.UINT8
        and not codes.is_graph_input()
    )  # fmt: skip


def _as_int8(tensor: ir.TensorProtocol | None) -> NDArray[np.int8]:
    assert tensor is not None
    return (tensor.numpy().astype(np.int16) - _MIDDLE).astype(np.int8)


INTEGER = Rewrite(
    "write integer layers as Q/DQ", _write_on_floats, ("MatMulInteger", "ConvInteger"), ("", MICROSOFT),
    requires=Requires(opset=13), ensures=Ensures(gone=True),
)  # fmt: skip

INT8_WEIGHTS = Rewrite(
    "store uint8 weights as int8", _shift_weight, ("DequantizeLinear",), matches=_has_uint8_weight
)
