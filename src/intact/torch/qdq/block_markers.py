"""Write linear layers with block weights into an exported graph, as MatMulNBits or behind a DequantizeLinear.

torch's exporter writes `intact::block_linear` as one marker node, whose codes are known when it has finished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch import nn

from intact import graph
from intact.errors import IntactError, UnsupportedError
from intact.formats import nbits_inputs
from intact.graph import Inserter, Model, Namer, Node, Value, ops
from intact.numerics import BlockWeights, split_stream
from intact.ptq.blocks import QDQ_OPSET, insert_dequantize, insert_nbits
from intact.torch.block_weights.layers import BlockWeightLinear

__all__ = ["block_translation", "has_block_layers", "opset_of_block_layers", "write_block_layers"]

_DOMAIN, _OP_TYPE = "intact", "BlockLinear"
_NUMBERS = ("K", "bits", "block", "x_block")
_FLOAT = ir.DataType.FLOAT
_LEAST = 16
"""Elements of the smallest block of a MatMulNBits; others are powers of 2."""


def has_block_layers(model: Any) -> bool:
    """Return whether a module, or a program that torch exported, has layers with block weights."""
    if isinstance(model, torch.export.ExportedProgram):
        return any(node.target is torch.ops.intact.block_linear.default for node in model.graph.nodes)
    return isinstance(model, nn.Module) and any(isinstance(m, BlockWeightLinear) for m in model.modules())


def block_translation() -> dict[Any, Callable[..., Any]]:
    """Return the operator and its writer, for `custom_translation_table` of `torch.onnx.export`."""
    import onnx
    import onnxscript  # a second of import time, that training does not pay

    schema = onnx.defs.OpSchema
    optional = schema.FormalParameterOption.Optional
    types = [
        ("T", ["tensor(float)", "tensor(float16)", "tensor(bfloat16)", "tensor(double)"], "the tensor"),
        ("C", ["tensor(uint8)"], "codes"),
        ("S", ["tensor(float)", "tensor(float16)", "tensor(bfloat16)"], "scales"),
    ]
    marker = onnxscript.values.Op(
        onnxscript.values.Opset(_DOMAIN, 1), _OP_TYPE,
        schema(
            _OP_TYPE, _DOMAIN, 1,
            inputs=[
                schema.FormalParameter("x", "T"), schema.FormalParameter("codes", "C"),
                schema.FormalParameter("scales", "S"),
                schema.FormalParameter("zero_points", "C", param_option=optional),
                schema.FormalParameter("minima", "S", param_option=optional),
                schema.FormalParameter("bias", "S", param_option=optional),
            ],
            outputs=[schema.FormalParameter("y", "T")], type_constraints=types,
            attributes=[schema.Attribute(name, schema.AttrType.INT, required=True) for name in _NUMBERS],
        ),
    )  # fmt: skip

    def write(x, codes, scales, zero_points, bias, inputs, bits, block, x_block):  # type: ignore[no-untyped-def]
        numbers = dict(zip(_NUMBERS, (inputs, bits, block, x_block), strict=True))
        return marker(x, codes, scales, zero_points, None, bias, **numbers)

    return {torch.ops.intact.block_linear.default: write}


def opset_of_block_layers(model: Model) -> int:
    """Return the oldest opset that can say all such layers of an exported graph; 0 where any can."""
    return max((0 if _fits_nbits(_Layer(node)) else QDQ_OPSET for node in _nodes(model)), default=0)


def write_block_layers(model: Model, opset: int) -> None:
    """Replace the markers of an exported graph, in place.

    Before: ``BlockLinear(x, codes, scales, zero_points, "", bias)``.
    After: ``MatMulNBits`` at accuracy level 4 where x is quantized; for float activations from opset 21 on
    ``Add(MatMul(x, DequantizeLinear(codes, scales)), bias)``, in older ones MatMulNBits at level 0.

    Args:
        model: An exported graph.
        opset: That it will have.
    Raises:
        UnsupportedError: No operator has such a grid; names the layer.
    """
    nodes = list(_nodes(model))
    names = Namer(model.graph)
    for node in nodes:
        layer = _Layer(node)
        insert = Inserter(model.graph, node, names)
        try:
            value = _write(layer, insert, opset)
        except IntactError as error:
            raise error.at(f"layer '{layer.stem}'") from None
        graph.take_place(node, [value], names)
    if nodes:
        graph.prune(model)
        graph.forget_domain(model, _DOMAIN)


def _nodes(model: Model) -> list[Node]:
    return [node for node in model.graph if node.op_type == _OP_TYPE and node.domain == _DOMAIN]


class _Layer:
    """One marker node, read.

    Attributes:
        node: The node.
        stem: What its constants are called after: the path of the module's weights.
        weights: The record.
        x_block: Elements of a block of activations, 0 for floats.
        bias: float32 [N], or None.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        numbers = ops.BlockLinear.of(node)
        values = (graph.input_of(node, at) for at in (1, 2, 3, 5))
        codes, scales, points, bias = (None if value is None else _constant(value) for value in values)
        assert codes is not None and scales is not None and node.inputs[1] is not None
        bits, self.x_block = numbers.bits, numbers.x_block
        points = np.full(scales.shape, 2 ** (bits - 1), np.uint8) if points is None else points
        self.weights = BlockWeights(
            split_stream(codes, bits, numbers.K), f"uint{bits}", scales.astype(np.float32),
            min(numbers.block, numbers.K), zero_points=points,
        )  # fmt: skip
        self.bias = None if bias is None else bias.astype(np.float32)
        self.stem = (node.inputs[1].name or "").removesuffix(".codes") or node.name or ""


def _constant(value: Value) -> np.ndarray:
    if value.const_value is None:
        raise UnsupportedError(
            f"'{value.name}'", "block weights that are computed", "buffers of a module",
            "export modules that `intact.quantize` made",
        )  # fmt: skip
    return np.asarray(value.const_value.numpy())


def _fits_nbits(layer: _Layer) -> bool:
    try:
        nbits_inputs(_power_of_two(layer.weights))
    except UnsupportedError:
        return False
    return True


def _power_of_two(weights: BlockWeights) -> BlockWeights:
    """Return weights with one block for each row as blocks of a power of 2, that the row does not fill."""
    if weights.blocks != 1:
        return weights
    size = max(_LEAST, 1 << (weights.shape[1] - 1).bit_length())
    return BlockWeights(weights.codes, weights.format, weights.scales, size, zero_points=weights.zero_points)


def _write(layer: _Layer, insert: Inserter, opset: int) -> Value:
    node = layer.node
    x, output = node.inputs[0], node.outputs[0]
    assert x is not None
    in_floats = x.dtype is None or x.dtype.name == "FLOAT"
    if not in_floats:  # the module multiplies float32, too
        x = insert.node("Cast", [x], layer.stem, dtype=_FLOAT, shape=x.shape, to=int(_FLOAT))
    if layer.x_block or opset < QDQ_OPSET:
        weights, level = _power_of_two(layer.weights), 4 if layer.x_block else 0
        value = insert_nbits(insert, x, weights, layer.bias, layer.stem, level, like=output)
    else:
        matrix = insert_dequantize(insert, layer.weights, layer.stem, outputs_first=False)
        value = insert.node("MatMul", [x, matrix], layer.stem, dtype=_FLOAT, shape=output.shape)
        if layer.bias is not None:
            bias = insert.constant(f"{layer.stem}.bias", layer.bias)
            value = insert.node("Add", [value, bias], layer.stem, dtype=_FLOAT, shape=output.shape)
    if in_floats or output.dtype is None:
        return value
    return insert.node(
        "Cast", [value], layer.stem, dtype=output.dtype, shape=output.shape, to=int(output.dtype)
    )
