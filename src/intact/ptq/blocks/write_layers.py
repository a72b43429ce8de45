"""Writes block weights into a model: behind a DequantizeLinear, or as a MatMulNBits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.formats import dequantize_inputs, nbits_inputs
from intact.graph import Inserter, Model, Namer, Value, input_of, is_op, ops, take_place
from intact.numerics import BlockWeights
from intact.ptq.blocks.linear_layers import LinearLayer

QDQ_OPSET = 21
"""The first opset whose DequantizeLinear has blocks and 4 bits."""


def write_dequantize(model: Model, layer: LinearLayer, weights: BlockWeights) -> None:
    """Put a DequantizeLinear of the codes in the place of a layer's weight, in place.

    Before: ``MatMul(x, w)``.  After: ``MatMul(x, DequantizeLinear(codes, scales, axis=0, block_size=32))``.
    Codes lie as the weight lay behind any Transpose, [K, N] for a MatMul.

    Args:
        model: Of opset 21 or newer.
        layer: Of its main graph.
        weights: Shape [N, K].
    Raises:
        UnsupportedError: DequantizeLinear has no such grid.
    """
    inputs, attributes = dequantize_inputs(weights)
    inputs["x_scale"] = inputs["x_scale"].astype(layer.dtype)
    insert = Inserter(model.graph, layer.node, Namer(model.graph))
    axis = 1
    if not layer.transposes:
        inputs, axis = {name: np.ascontiguousarray(part.T) for name, part in inputs.items()}, 0
    stem = layer.weight.name or layer.name
    suffixes = {"x": "codes", "x_scale": "scales", "x_zero_point": "zero_points"}
    constants = [insert.constant(f"{stem}.{suffixes[name]}", part) for name, part in inputs.items()]
    old = layer.node.inputs[1]
    assert old is not None
    floats = insert.node(
        "DequantizeLinear", constants, f"{stem}.floats", dtype=layer.weight.dtype, shape=old.shape,
        axis=axis, block_size=attributes["block_size"],
    )  # fmt: skip
    layer.node.replace_input_with(1, floats)
    _drop(model, old)


def write_nbits(model: Model, layer: LinearLayer, weights: BlockWeights, accuracy_level: int) -> None:
    """Put a MatMulNBits in the place of a layer, in place; outputs keep their names.

    Before: ``Gemm(x, w, c)``.  After: ``MatMulNBits(x, codes, scales, , , c)``.

    Args:
        model: Any opset.
        layer: Of its main graph.
        weights: Shape [N, K].
        accuracy_level: 0: the product of floats. 4: x is quantized to int8 in blocks of the weights' size.
    Raises:
        UnsupportedError: MatMulNBits has no such grid.
    """
    node = layer.node
    alpha = beta = 1.0
    if is_op(node, "Gemm"):
        form = ops.Gemm.of(node)
        alpha, beta = form.alpha, form.beta
    scales = (weights.scales.astype(np.float32) * np.float32(alpha)).astype(layer.dtype)
    inputs, attributes = nbits_inputs(replace(weights, scales=scales))
    inputs["scales"] = inputs["scales"].astype(layer.dtype)
    names = Namer(model.graph)
    insert = Inserter(model.graph, node, names)
    stem = layer.weight.name or layer.name
    read: list[Value | None] = [node.inputs[0]]
    for name, suffix in (("B", "codes"), ("scales", "scales"), ("zero_points", "zero_points")):
        read.append(insert.constant(f"{stem}.{suffix}", inputs[name]) if name in inputs else None)
    bias = input_of(node, 2)
    stored = _stored_bias(bias, beta, layer)
    if stored is not None:
        read += [None, insert.constant(f"{stem}.bias", stored)]
    while read[-1] is None:
        read.pop()
    output = node.outputs[0]
    model.opset_imports.setdefault(ops.MICROSOFT, 1)
    value = insert.node(
        "MatMulNBits", read, layer.name, domain=ops.MICROSOFT, dtype=output.dtype, shape=output.shape,
        accuracy_level=accuracy_level, **attributes,
    )  # fmt: skip
    if bias is not None and stored is None:
        value = insert.node("Add", [value, bias], layer.name, dtype=output.dtype, shape=output.shape)
    old = node.inputs[1]
    take_place(node, [value], names)
    assert old is not None
    _drop(model, old)


def _drop(model: Model, value: Value) -> None:
    """Remove a constant that nobody reads any more, and what it was made of."""
    if value.uses() or value.is_graph_output():
        return
    producer = value.producer()
    if producer is None:
        model.graph.initializers.pop(value.name or "", None)
        return
    inputs = [part for part in producer.inputs if part is not None]
    model.graph.remove(producer, safe=True)
    for part in inputs:
        _drop(model, part)


def _stored_bias(bias: Value | None, beta: float, layer: LinearLayer) -> NDArray | None:
    """Return a constant bias as [N]; None where there is none, or it is no vector over the outputs."""
    if bias is None or bias.const_value is None or bias.is_graph_input():
        return None
    array, outputs = bias.const_value.numpy(), layer.shape[0]
    if array.size not in (1, outputs) or (array.size > 1 and array.shape[-1] != outputs):
        return None
    scaled = np.broadcast_to(array.reshape(-1), outputs).astype(np.float32) * np.float32(beta)
    return np.ascontiguousarray(scaled.astype(layer.dtype))
