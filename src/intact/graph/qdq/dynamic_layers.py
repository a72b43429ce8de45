"""Rewrite dynamically quantized layers, and layers with quantized weights alone, as float layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import FileFormatError
from intact.graph import ops
from intact.graph.core.build import Writer
from intact.graph.core.constants import Constants
from intact.graph.core.edit import input_of
from intact.graph.core.quantization_view import is_op, only_reader
from intact.graph.ops import MICROSOFT
from intact.graph.ops.attributes import copy_attributes
from intact.graph.qdq.block_weights import is_block_operator, read_block_weight
from intact.graph.qdq.packed_weights import unpack_weight
from intact.graph.rewrites.experts import quantized_experts
from intact.graph.rewrites.rewrite import Ensures, Outcome, Rewrite, Scene, Stays
from intact.numerics import dequantize_blocks

_FLOAT = ir.DataType.FLOAT


def is_dynamic(node: ir.Node) -> bool:
    """Return whether `DYNAMIC` is for a node: it quantizes dynamically, or its weight has codes."""
    if is_op(node, "DequantizeLinear"):
        producer = _source_of_codes(node.inputs[0]).producer() if node.inputs[0] is not None else None
        return producer is not None and is_op(producer, "DynamicQuantizeLinear")
    return (node.domain, node.op_type) in _RULES


def has_stored_codes(node: ir.Node) -> bool:
    """Return whether one operator reads a quantized weight, and no codes of data."""
    return is_block_operator(node) or (node.domain == MICROSOFT and node.op_type in _OF_CODES)


_OF_CODES = ("GatherBlockQuantized", "MatMulBnb4", "MatMulFpQ4", "MatMulNBits", "QMoE")


class _Obstacle(Exception):
    """Carries the reason why a node is left as it is."""


def _write_on_floats(node: ir.Node, scene: Scene) -> Outcome:
    """Replace dynamically quantized nodes, and nodes with quantized weights alone, by float ones.

    Before: ``q, s, z = DynamicQuantizeLinear(x)``, ``y = Mul(Cast(MatMulInteger(q, w, z, v)), Mul(s, t))``.
    After:  ``y = MatMul(x, (w - v) * t)``; so ConvInteger, and the operators of ONNX Runtime that say as
    much in one node: DynamicQuantizeMatMul, MatMulIntegerToFloat, DynamicQuantizeLSTM, QAttention,
    QEmbedLayerNormalization, MatMulNBits, MatMulBnb4; and INTact's own. Both operands may be dynamic. What
    moved codes moves floats.

    The difference is the rounding of x: at most half of the scale that a batch gives it, for each product.
    """
    if is_op(node, "DynamicQuantizeLinear"):
        return None  # it goes with its readers
    try:
        replacement = _RULES[node.domain, node.op_type](_Floats(scene), node)
    except _Obstacle as reason:
        return Stays(f"{node.op_type} stays: {reason}")
    return f"{node.op_type} became {replacement}"


class _Floats:
    """The floats of codes in a graph that is rewritten."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.constants = scene, scene.constants

    def array(self, value: ir.Value | None, what: str) -> NDArray[Any]:
        """Return a constant of the graph."""
        array = self.constants(value) if value is not None else None
        if array is None:
            raise _Obstacle(f"its {what} is not constant")
        return array

    def real(
        self, node: ir.Node, codes: ir.Value | None, scale: ir.Value | None, zero: ir.Value | None
    ) -> ir.Value:
        """Return the floats whose codes `node` reads, where scale and zero point are those that they got."""
        assert codes is not None
        producer = _source_of_codes(codes).producer()
        if producer is not None and is_op(producer, "DynamicQuantizeLinear"):
            if scale is not producer.outputs[1] or zero is not producer.outputs[2]:
                raise _Obstacle("it reads codes with the scale or zero point of others")
            return self._above(codes)
        if scale is None or self.constants(codes) is not None:
            raise _Obstacle("no DynamicQuantizeLinear makes its codes")
        inputs = [codes, scale] if zero is None else [codes, scale, zero]
        return self.scene.inserter(node).node(
            "DequantizeLinear", inputs, f"{codes.name}.real", dtype=_FLOAT, shape=codes.shape
        )

    def _above(self, codes: ir.Value) -> ir.Value:
        """Return codes, or what they would be if the operators above them had moved floats."""
        mover = codes.producer()
        assert mover is not None and mover.inputs[0] is not None
        if is_op(mover, "DynamicQuantizeLinear"):
            return mover.inputs[0]
        added = self.scene.added
        if codes not in added:
            inputs = [self._above(mover.inputs[0]), *mover.inputs[1:]]
            (added[codes],) = self.scene.inserter(mover, after=True).copy(mover, inputs)
            added[codes].type = ir.TensorType(_FLOAT)
        return added[codes]

    def store_floats(
        self, node: ir.Node, codes: ir.Value | None, factor: NDArray[np.float32], zero: NDArray[Any],
        turned: Sequence[int] = (),
    ) -> ir.Value:  # fmt: skip
        """Store ``(codes - zero) * factor`` as an initializer, its axes in the order `turned`."""
        key = (codes, factor.tobytes(), factor.shape, zero.tobytes(), tuple(turned))
        if key not in self.scene.added:
            whole = self.array(codes, "weight").astype(np.int32) - zero.astype(np.int32)
            floats = (whole.astype(np.float32) * factor).astype(np.float32)
            name = (codes.name if codes is not None else "") or "weight"
            array = np.ascontiguousarray(floats.transpose(turned) if turned else floats)
            self.scene.added[key] = self.scene.inserter(node).constant(_name_before_quantization(name), array)
            _keep_codes(self.scene.added[key], self.array(codes, "weight"), factor, zero, turned)
        return self.scene.added[key]

    def weight(
        self, node: ir.Node, codes: int, scale: int, zero: int, turned: Sequence[int] = ()
    ) -> ir.Value:
        """Return the floats of the weight at an input, whose scales and zero points lie along its last
        axis."""
        stored = self.array(input_of(node, codes), "weight")
        factor = self.array(input_of(node, scale), "weight's scale").astype(np.float32)
        return self.store_floats(
            node, input_of(node, codes), _along_last(factor, stored),
            _along_last(self.zero(node, zero), stored), turned,
        )  # fmt: skip

    def zero(self, node: ir.Node, index: int) -> NDArray[Any]:
        """Return a zero point, by default 0."""
        value = input_of(node, index)
        return np.zeros((), np.int32) if value is None else self.array(value, "weight's zero point")

    def replace_layer(
        self, node: ir.Node, op_type: str, inputs: Sequence[ir.Value | None], bias: ir.Value | None = None,
        last: ir.Node | None = None, **attributes: Any,
    ) -> None:  # fmt: skip
        """Replace `node` up to `last` by an `op_type`, and an Add of `bias`."""
        last = node if last is None else last
        output, name = last.outputs[0], node.name or node.op_type
        insert, shape = self.scene.inserter(last), output.shape
        base = _name_before_quantization(name) if _name_before_quantization(name) != name else f"{name}.real"
        domain = attributes.pop("domain", "")
        y = insert.node(op_type, inputs, base, dtype=_FLOAT, shape=shape, domain=domain, **attributes)
        if bias is not None:
            y = insert.node("Add", [y, bias], f"{name}.biased", dtype=_FLOAT, shape=shape)
        output_name, output.name = output.name, None
        self.scene.replace(last, y)
        y.name = output_name

    def swap(self, node: ir.Node, op_type: str, inputs: Sequence[ir.Value | None], domain: str) -> None:
        """Let another operator make all outputs of `node`."""
        new_outputs = [ir.Value(name=v.name, type=v.type, shape=v.shape) for v in node.outputs]
        new = ir.node(
            op_type, inputs, copy_attributes(node), domain=domain, outputs=new_outputs, name=node.name
        )
        self.scene.graph.insert_before(node, new)
        for old, new_output in zip(node.outputs, new_outputs, strict=True):
            old.name = None
            old.replace_all_uses_with(new_output, replace_graph_outputs=True)
        self.scene.graph.remove(node, safe=True)


@dataclass(frozen=True, eq=False)
class StoredCodes:
    """Holds the codes of 8 bits that a constant of floats was made of.

    Attributes:
        codes: int8 or uint8, in the shape of the floats.
        scale: float32 of one channel axis, or 0-dimensional.
        zero_point: Of the dtype of the codes and the shape of the scales.
        axis: Of the channels.
    """

    codes: NDArray[Any]
    scale: NDArray[np.float32]
    zero_point: NDArray[Any]
    axis: int

    @property
    def floats(self) -> NDArray[np.float32]:
        """The floats that a DequantizeLinear makes of the codes."""
        shape = [1] * self.codes.ndim
        if self.scale.ndim:
            shape[self.axis] = -1
        whole = self.codes.astype(np.int32) - self.zero_point.astype(np.int32).reshape(shape)
        return (whole.astype(np.float32) * self.scale.reshape(shape)).astype(np.float32)


_CODES_KEY = "intact.codes"


def codes_behind(value: ir.Value) -> StoredCodes | None:
    """Return the codes that `DYNAMIC` made a constant of; None for others."""
    return value.meta.get(_CODES_KEY)


def _keep_codes(
    value: ir.Value, codes: NDArray[Any], factor: NDArray[np.float32], zero: NDArray[Any],
    turned: Sequence[int],
) -> None:  # fmt: skip
    """Note the codes of a constant where one DequantizeLinear can make its floats of them."""
    if codes.dtype not in (np.int8, np.uint8):
        return
    shape = np.broadcast_shapes(factor.shape, zero.shape)
    apart = [axis for axis, size in enumerate(shape) if size > 1]
    if len(apart) > 1 or len(shape) > codes.ndim:
        return
    scale, point = (np.broadcast_to(part, shape).reshape(-1 if apart else ()) for part in (factor, zero))
    axis = apart[0] + codes.ndim - len(shape) if apart else 0
    order = list(turned) or list(range(codes.ndim))
    value.meta[_CODES_KEY] = StoredCodes(
        np.ascontiguousarray(codes.transpose(order)), np.ascontiguousarray(scale, np.float32),
        np.ascontiguousarray(point.astype(codes.dtype)), order.index(axis),
    )  # fmt: skip


def _name_before_quantization(name: str) -> str:
    """Return the name of a weight or node before ONNX Runtime quantized it."""
    return name.removesuffix("_quantized").removesuffix("_quant")


def _source_of_codes(codes: ir.Value) -> ir.Value:
    """Return the codes as they were before operators moved them."""
    while (node := codes.producer()) is not None and node.inputs and node.inputs[0] is not None:
        if not ops.may_move(node) or tuple(ops.data_inputs(node)) != (0,) or len(node.outputs) != 1:
            break
        codes = node.inputs[0]
    return codes


def _along_last(array: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
    """Reshape parameters for each column of a weight, or for each of its matrices, so that they broadcast."""
    if array.size == 1:
        return array.reshape(())
    if weight.ndim < 2:
        raise _Obstacle("its weight is no matrix")
    if array.ndim == 1 and array.size == weight.shape[-1]:
        return array
    if array.ndim == weight.ndim - 1 and weight.shape[-1] == array.shape[-1]:
        return np.expand_dims(array, -2)
    if weight.ndim > 2 and array.shape == weight.shape[:1]:
        return array.reshape(-1, *[1] * (weight.ndim - 1))
    if array.ndim == weight.ndim and array.shape[-2] == 1:
        return array
    raise _Obstacle("its scales do not belong to its output channels")


def _integer_layer(floats: _Floats, node: ir.Node) -> str:
    """Match MatMulInteger or ConvInteger, the Cast behind it, and the Mul of the scales; write it on floats.

    An operand may have codes of one constant scale, too: rows of a table that a Gather took.
    """
    op_type, constants = node.op_type.removesuffix("Integer"), floats.constants
    stored = constants(node.inputs[1]) is not None
    operands = [0] if stored else [0, 1]
    dynamic = {
        index: scale for index in operands if (scale := _dynamic_scale(node.inputs[index])) is not None
    }
    static = len(operands) - len(dynamic) + stored
    last, factors = _find_scale(node, list(dynamic.values()), static, constants)
    values = []
    for index in operands:
        codes, scale = node.inputs[index], dynamic.get(index)
        if scale is None:
            scale = _static_scale(codes, factors, constants)
            factors.remove(scale)
        values.append(floats.real(node, codes, scale, input_of(node, 2 + index)))
    factor = np.ones((), np.float32)
    for value in factors:
        factor = np.asarray(factor * floats.array(value, "factor").astype(np.float32), np.float32)
    if stored:
        values.append(_integer_weight(floats, node, factor))
    elif factors:
        raise _Obstacle("its sum is multiplied by more than the two scales")
    floats.replace_layer(node, op_type, values, last=last, **copy_attributes(node))
    return op_type


def _dynamic_scale(codes: ir.Value | None) -> ir.Value | None:
    """Return the scale that a DynamicQuantizeLinear gave some codes."""
    producer = _source_of_codes(codes).producer() if codes is not None else None
    return producer.outputs[1] if producer is not None and is_op(producer, "DynamicQuantizeLinear") else None


def _static_scale(codes: ir.Value | None, factors: list[ir.Value], constants: Constants) -> ir.Value:
    """Return the factor that is the scale of codes: the one with which they are read, else the first of
    two."""
    assert codes is not None
    numbers = [value for value in factors if (array := constants(value)) is not None and array.size == 1]
    dequantizer_scales = [node.inputs[1] for node in codes.consumers() if is_op(node, "DequantizeLinear")]
    scale = next((value for value in numbers if value in dequantizer_scales), None)
    if scale is None and len(factors) > 1 and numbers:
        scale = numbers[0]
    if scale is None:
        raise _Obstacle("no DynamicQuantizeLinear makes its codes")
    return scale


def _integer_weight(floats: _Floats, node: ir.Node, factor: NDArray[np.float32]) -> ir.Value:
    """Return the floats of a weight; `factor` broadcasts over the outputs of its layer."""
    weight = node.inputs[1]
    stored, zero = floats.array(weight, "weight"), floats.zero(node, 3)
    if is_op(node, "MatMulInteger"):
        columns = stored.shape[-1]
        if factor.size not in (1, columns) or (factor.size > 1 and factor.shape[-1] != columns):
            raise _Obstacle("the factors of its sum do not belong to its output channels")
        factor = factor.reshape(-1) if factor.size > 1 else factor.reshape(())
        return floats.store_floats(node, weight, factor, _along_last(zero, stored))
    channels = (-1, *[1] * (stored.ndim - 1))
    if factor.size > 1 and (factor.ndim < stored.ndim - 1 or factor.shape[-stored.ndim + 1] != factor.size):
        raise _Obstacle("the factors of its sum do not belong to its output channels")
    factor, zero = (a.reshape(channels) if a.size > 1 else a.reshape(()) for a in (factor, zero))
    return floats.store_floats(node, weight, factor, zero)


def _find_scale(
    node: ir.Node, scales: list[ir.Value], static: int, constants: Constants
) -> tuple[ir.Node, list[ir.Value]]:
    """Find the last Mul that gives a sum its scale, and its factors beside the scales of dynamic codes.

    Args:
        scales: Those of the codes of dynamic operands: each must be among the factors.
        static: How many operands have constant scales, which are factors of their own.
    """
    cast = only_reader(node.outputs[0], "Cast")
    if cast is None or ops.Cast.of(cast).to != _FLOAT:
        raise _Obstacle("no Cast to float32 and Mul that give its sum a scale")
    last, missing, factors = cast, list(scales), list[ir.Value]()
    while missing or len(factors) < static:
        product = only_reader(last.outputs[0], "Mul")
        if product is None:
            break
        leaves = _leaves(product.inputs[1 if product.inputs[0] is last.outputs[0] else 0])
        if not missing and not all(leaf in constants for leaf in leaves):
            break
        for leaf in leaves:
            (missing.remove if leaf in missing else factors.append)(leaf)
        last = product
    if missing:
        raise _Obstacle("its sum is not multiplied by the scale of its codes")
    return last, factors


def _leaves(value: ir.Value | None) -> list[ir.Value]:
    """Return the factors of a product."""
    assert value is not None
    node = value.producer()
    if node is not None and is_op(node, "Mul"):
        return [leaf for factor in node.inputs for leaf in _leaves(factor)]
    return [value]


def _dequantize(floats: _Floats, node: ir.Node) -> str:
    """Return the codes of a DynamicQuantizeLinear made floats again."""
    codes, scale, zero = (input_of(node, at) for at in (0, 1, 2))
    real = floats.real(node, codes, scale, zero)
    floats.scene.replace(node, real)
    return "what its codes were made of"


def _dynamic_product(floats: _Floats, node: ir.Node) -> str:
    floats.replace_layer(node, "MatMul", [node.inputs[0], floats.weight(node, 1, 2, 3)], input_of(node, 4))
    return "MatMul"


def _product_of_codes(floats: _Floats, node: ir.Node) -> str:
    real = floats.real(node, node.inputs[0], input_of(node, 2), input_of(node, 4))
    floats.replace_layer(node, "MatMul", [real, floats.weight(node, 1, 3, 5)], input_of(node, 6))
    return "MatMul"


def _lstm(floats: _Floats, node: ir.Node) -> str:
    """Write DynamicQuantizeLSTM on floats: its weights are [directions, inputs, 4 * hidden], those of LSTM
    transposed."""
    w, r = floats.weight(node, 1, 8, 9, (0, 2, 1)), floats.weight(node, 2, 10, 11, (0, 2, 1))
    inputs = [node.inputs[0], w, r, *(input_of(node, at) for at in range(3, 8))]
    floats.swap(node, "LSTM", inputs, "")
    return "LSTM"


def _attention(floats: _Floats, node: ir.Node) -> str:
    weight = floats.weight(node, 1, 4, 7)
    real = floats.real(node, node.inputs[0], input_of(node, 3), input_of(node, 6))
    floats.swap(node, "Attention", [real, weight, *(input_of(node, at) for at in (2, 5, 8))], MICROSOFT)
    return "Attention"


def _embedding(floats: _Floats, node: ir.Node) -> str:
    """Write QEmbedLayerNormalization on floats.

    Inputs: ids, segments; five tables and weights; the mask; five scales; five zero points.
    """
    tables = [
        None if input_of(node, at) is None else floats.weight(node, at, at + 6, at + 11) for at in range(2, 7)
    ]
    inputs = [node.inputs[0], input_of(node, 1), *tables, input_of(node, 7)]
    floats.swap(node, "EmbedLayerNormalization", inputs, MICROSOFT)
    return "EmbedLayerNormalization"


def _few_bits(floats: _Floats, node: ir.Node) -> str:
    """Return the weight of a MatMulNBits as floats; its columns lie behind each other."""
    if input_of(node, 4) is not None:
        raise _Obstacle("its blocks are in an order of their own")
    zero = input_of(node, 3)
    codes, scale = floats.array(node.inputs[1], "weight"), floats.array(node.inputs[2], "weight's scale")
    zeros = None if zero is None else floats.array(zero, "weight's zero point")
    if scale.dtype != np.float32:
        raise _Obstacle("it does not compute in float32")
    array = unpack_weight(node, codes, scale, zeros)
    if array is None:
        raise _Obstacle("its codes are of a layout that is not known here")
    stored = node.inputs[1]
    name = _name_before_quantization((stored.name if stored is not None else "") or "weight")
    weight = floats.scene.inserter(node).constant(name, array)
    floats.replace_layer(node, "MatMul", [node.inputs[0], weight], input_of(node, 5))
    return "MatMul"


def _block_weights(floats: _Floats, node: ir.Node) -> str:
    """Return the weights of a BlockLinear, BlockGather or MatMulBnb4 as floats."""
    try:
        weights = read_block_weight(node, floats.constants)
    except FileFormatError as error:
        raise _Obstacle(f"{error.where} is {error.got}") from error
    name = _name_before_quantization((node.inputs[1].name if node.inputs[1] is not None else "") or "weight")
    is_table, array = node.op_type == "BlockGather", dequantize_blocks(weights)
    weight = floats.scene.inserter(node).constant(name, array if is_table else np.ascontiguousarray(array.T))
    x, op_type = node.inputs[0], "Gather" if is_table else "MatMul"
    floats.replace_layer(node, op_type, [weight, x] if is_table else [x, weight], input_of(node, 5))
    return op_type


def _experts(floats: _Floats, node: ir.Node) -> str:
    """Return the products of a QMoE on the floats of its experts."""
    inputs = (*node.inputs, *[None] * (_EXPERT_INPUTS - len(node.inputs)))
    outputs = quantized_experts(Writer(node, floats.scene.names), node, inputs, floats=True)
    if outputs is None:
        raise _Obstacle("its experts are computed, or of a form that is not known here")
    floats.scene.replace(node, outputs[0])
    return "products of all experts"


_EXPERT_INPUTS = 21

Rule = Callable[[_Floats, ir.Node], str]

_RULES: dict[tuple[str, str], Rule] = {
    ("", "DynamicQuantizeLinear"): _dequantize,
    ("", "MatMulInteger"): _integer_layer,
    ("", "ConvInteger"): _integer_layer,
    ("", "DequantizeLinear"): _dequantize,
    (MICROSOFT, "DynamicQuantizeMatMul"): _dynamic_product,
    (MICROSOFT, "MatMulIntegerToFloat"): _product_of_codes,
    (MICROSOFT, "DynamicQuantizeLSTM"): _lstm,
    (MICROSOFT, "QAttention"): _attention,
    (MICROSOFT, "QEmbedLayerNormalization"): _embedding,
    (MICROSOFT, "MatMulBnb4"): _block_weights,
    (MICROSOFT, "MatMulNBits"): _few_bits,
    (MICROSOFT, "QMoE"): _experts,
    (ops.BlockLinear.domain, "BlockGather"): _block_weights,
    (ops.BlockLinear.domain, "BlockLinear"): _block_weights,
}
"""(domain, operator) -> what makes floats of it, and says what it became."""

DYNAMIC = Rewrite(
    "make layers that quantize as they run float", _write_on_floats, tuple(name for _, name in _RULES),
    ("", MICROSOFT, ops.BlockLinear.domain), is_dynamic, ensures=Ensures(read=True, domains=False),
)  # fmt: skip

DYNAMIC_STATES = replace(
    DYNAMIC, name="make recurrent layers with dynamic states float",
    matches=lambda node: node.op_type == "DynamicQuantizeLSTM",
)  # fmt: skip
"""Those alone. With states in float they take two to three times as long."""

DYNAMIC_DATA = replace(
    DYNAMIC, name="make layers that quantize their data as they run float",
    matches=lambda node: is_dynamic(node) and not _stays(node),
)  # fmt: skip
"""The others, but what reads codes of weights alone stays, where ONNX Runtime runs it: floats are larger."""


def _stays(node: ir.Node) -> bool:
    return node.domain == MICROSOFT and (has_stored_codes(node) or node.op_type == "DynamicQuantizeLSTM")
