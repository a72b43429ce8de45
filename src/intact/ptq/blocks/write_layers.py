"""Writes block weights into a model: behind a DequantizeLinear, as a MatMulNBits, or as a BlockLinear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike, NDArray

from intact.formats import BLOCK_INPUTS, block_inputs, dequantize_inputs, nbits_inputs
from intact.graph import Graph, Inserter, Namer, Node, Value, input_of, inserter_at, is_op, ops, take_place
from intact.numerics import BlockWeights
from intact.ptq.blocks.linear_layers import LinearLayer

QDQ_OPSET = 21
"""The first opset whose DequantizeLinear has blocks and 4 bits."""


def write_dequantize(names: Namer, layer: LinearLayer, weights: BlockWeights) -> None:
    """Put a DequantizeLinear of the codes in the place of a layer's weight, in place.

    Before: ``MatMul(x, w)``.  After: ``MatMul(x, DequantizeLinear(codes, scales, axis=0, block_size=32))``.
    Codes lie as the weight lay behind any Transpose, [K, N] for a MatMul. Twins in several branches read one
    DequantizeLinear in front of their If: ONNX Runtime 1.32 fails on one within a branch whose codes are not.

    Args:
        names: Of the model, of opset 21 or newer.
        layer: Of any of its graphs; its twins get the same codes.
        weights: Shape [N, K].
    Raises:
        UnsupportedError: DequantizeLinear has no such grid.
    """
    stem = layer.weight.name or layer.node.name or ""
    floats: dict[bool, Value] = {}
    for twin in layer.all:
        old = twin.node.inputs[1]
        assert old is not None
        if twin.transposes not in floats:
            insert = inserter_at(names, _front(names, layer))
            floats[twin.transposes] = insert_dequantize(
                insert, weights, stem, outputs_first=twin.transposes, dtype=twin.dtype, like=old
            )
        twin.node.replace_input_with(1, floats[twin.transposes])
        _drop(old)


def _front(names: Namer, layer: LinearLayer) -> Node:
    """Return the node in front of which a layer and its twins can read a value."""
    if not layer.twins:
        return layer.node
    outermost, _ = layer.path[0]
    return next(node for node in names.graph if node.name == outermost)


def insert_dequantize(
    insert: Inserter, weights: BlockWeights, stem: str, *, outputs_first: bool,
    dtype: DTypeLike = np.float32, like: Value | None = None,
) -> Value:  # fmt: skip
    """Add the codes of weights [N, K] and a DequantizeLinear; return its floats.

    Args:
        insert: Where.
        weights: Shape [N, K].
        stem: What constants are called after.
        outputs_first: Whether codes lie as [N, K], and not as [K, N].
        dtype: Of the floats.
        like: Of the floats' shape; None: not known.
    Raises:
        UnsupportedError: DequantizeLinear has no such grid.
    """
    inputs, attributes = dequantize_inputs(weights)
    inputs["x_scale"] = inputs["x_scale"].astype(dtype)
    axis = 1
    if not outputs_first:
        inputs, axis = {name: np.ascontiguousarray(part.T) for name, part in inputs.items()}, 0
    suffixes = {"x": "codes", "x_scale": "scales", "x_zero_point": "zero_points"}
    constants = [insert.constant(f"{stem}.{suffixes[name]}", part) for name, part in inputs.items()]
    return insert.node(
        "DequantizeLinear", constants, f"{stem}.floats", dtype=constants[1].dtype,
        shape=None if like is None else like.shape, axis=axis, block_size=attributes["block_size"],
    )  # fmt: skip


def write_nbits(names: Namer, layer: LinearLayer, weights: BlockWeights, accuracy_level: int) -> None:
    """Put a MatMulNBits in the place of a layer, in place; outputs keep their names.

    Before: ``Gemm(x, w, c)``.  After: ``MatMulNBits(x, codes, scales, , , c)``.

    Args:
        names: Of the model, of any opset.
        layer: Of any of its graphs.
        weights: Shape [N, K].
        accuracy_level: 0: the product of floats. 4: x is quantized to int8 in blocks of the weights' size.
    Raises:
        UnsupportedError: MatMulNBits has no such grid.
    """
    _put_nbits(names, layer, *_nbits_of(_scale_by_alpha(weights, layer), accuracy_level))


def copy_nbits(names: Namer, layer: LinearLayer, written: Node) -> None:
    """Put a MatMulNBits in the place of a layer, in place, with the codes that it has in another model.

    Args:
        names: Of the model, of any opset.
        layer: Of any of its graphs.
        written: What `write_nbits` put there in a model with the same float weights; constants are shared.
    """
    inputs = {
        name: value.const_value.numpy()
        for name, value in zip(_NBITS_INPUTS, written.inputs[1:], strict=False)
        if value is not None and value.const_value is not None
    }  # fmt: skip
    _put_nbits(names, layer, inputs, vars(ops.MatMulNBits.of(written)))


def _put_nbits(
    names: Namer, layer: LinearLayer, inputs: Mapping[str, NDArray], attributes: Mapping[str, int]
) -> None:
    """Replace a layer by a MatMulNBits with these constants and attributes."""
    node_name = layer.node.name or ""

    def insert_product(insert: Inserter, x: Value, bias: NDArray | None) -> Value:
        return _insert_nbits(
            insert, x, inputs, bias, layer.weight.name or node_name, attributes,
            name=node_name, like=layer.node.outputs[0],
        )  # fmt: skip

    _replace_product(names, layer, insert_product)


def write_block_linear(names: Namer, layer: LinearLayer, weights: BlockWeights, x_block: int) -> None:
    """Put a BlockLinear, INTact's own operator, in the place of a layer, in place; outputs keep their names.

    Before: ``Gemm(x, w, c)``.  After: ``BlockLinear(x, codes, scales, , , c)``.

    Args:
        names: Of the model, of any opset.
        layer: Of any of its graphs.
        weights: Shape [N, K], 2 to 8 bits.
        x_block: Elements of x that share a range as int8; 0: the product of floats.
    """
    node_name, scaled = layer.node.name or "", _scale_by_alpha(weights, layer)

    def insert_product(insert: Inserter, x: Value, bias: NDArray | None) -> Value:
        arrays, numbers = block_inputs(scaled)
        stem = layer.weight.name or node_name
        if bias is not None:
            arrays["bias"] = bias
        read: list[Value | None] = [x]
        read += [
            insert.constant(f"{stem}.{name}", arrays[name]) if name in arrays else None
            for name in BLOCK_INPUTS
        ]
        while read[-1] is None:
            read.pop()
        return insert.node(
            "BlockLinear", read, node_name, domain=ops.BlockLinear.domain, dtype=x.dtype,
            shape=layer.node.outputs[0].shape, x_block=x_block, **numbers,
        )  # fmt: skip

    _replace_product(names, layer, insert_product)


def _scale_by_alpha(weights: BlockWeights, layer: LinearLayer) -> BlockWeights:
    """Multiply scales by the factor of a layer that is a Gemm; they get the layer's dtype."""
    alpha = ops.Gemm.of(layer.node).alpha if is_op(layer.node, "Gemm") else 1.0
    scales = (weights.scales.astype(np.float32) * np.float32(alpha)).astype(layer.dtype)
    return replace(weights, scales=scales)


def _replace_product(
    names: Namer, layer: LinearLayer, insert_product: Callable[[Inserter, Value, NDArray | None], Value]
) -> None:
    """Replace a layer by what `insert_product` makes of its input and a stored bias."""
    node = layer.node
    beta = ops.Gemm.of(node).beta if is_op(node, "Gemm") else 1.0
    insert = inserter_at(names, node)
    bias, output, x = input_of(node, 2), node.outputs[0], node.inputs[0]
    stored = _stored_bias(bias, beta, layer)
    assert x is not None
    value = insert_product(insert, x, stored)
    if bias is not None and stored is None:
        value = insert.node("Add", [value, bias], node.name or "", dtype=output.dtype, shape=output.shape)
    old = node.inputs[1]
    take_place(node, [value], insert.names)
    assert old is not None
    _drop(old)


def insert_nbits(
    insert: Inserter, x: Value, weights: BlockWeights, bias: NDArray | None, stem: str, accuracy_level: int,
    *, name: str = "", like: Value | None = None,
) -> Value:  # fmt: skip
    """Add a MatMulNBits of a tensor; return its output.

    Args:
        insert: Where.
        x: Of the dtype of the weights' scales.
        weights: Shape [N, K].
        bias: [N], or None.
        stem: What constants are called after.
        accuracy_level: As for `write_nbits`.
        name: Of the node; "": the stem.
        like: Of the output's shape; None: not known.
    Raises:
        UnsupportedError: MatMulNBits has no such grid.
    """
    inputs, attributes = _nbits_of(weights, accuracy_level)
    return _insert_nbits(insert, x, inputs, bias, stem, attributes, name=name, like=like)


def _nbits_of(weights: BlockWeights, accuracy_level: int) -> tuple[dict[str, NDArray], dict[str, int]]:
    """Return the constants and the attributes of a MatMulNBits of weights."""
    inputs, attributes = nbits_inputs(weights)
    inputs["scales"] = inputs["scales"].astype(weights.scales.dtype)
    return inputs, attributes | {"accuracy_level": accuracy_level}


_NBITS_ATTRIBUTES = ("accuracy_level", "K", "N", "bits", "block_size")
_NBITS_INPUTS = {"B": "codes", "scales": "scales", "zero_points": "zero_points"}
"""Constant inputs of a MatMulNBits behind its tensor, and what their names end with."""


def _insert_nbits(
    insert: Inserter, x: Value, inputs: Mapping[str, NDArray], bias: NDArray | None, stem: str,
    attributes: Mapping[str, int], *, name: str, like: Value | None,
) -> Value:  # fmt: skip
    read: list[Value | None] = [x]
    for key, suffix in _NBITS_INPUTS.items():
        read.append(insert.constant(f"{stem}.{suffix}", inputs[key]) if key in inputs else None)
    if bias is not None:
        read += [None, insert.constant(f"{stem}.bias", bias)]
    while read[-1] is None:
        read.pop()
    return insert.node(
        "MatMulNBits", read, name or stem, domain=ops.MICROSOFT, dtype=x.dtype,
        shape=None if like is None else like.shape, **{key: attributes[key] for key in _NBITS_ATTRIBUTES},
    )  # fmt: skip


def _drop(value: Value) -> None:
    """Remove a constant that nobody reads any more, and what it was made of."""
    if value.uses() or value.is_graph_output():
        return
    producer = value.producer()
    if producer is None:
        assert value.graph is not None
        value.graph.initializers.pop(value.name or "", None)
        return
    inputs = [part for part in producer.inputs if part is not None]
    assert isinstance(producer.graph, Graph)
    producer.graph.remove(producer, safe=True)
    for part in inputs:
        _drop(part)


def _stored_bias(bias: Value | None, beta: float, layer: LinearLayer) -> NDArray | None:
    """Return a constant bias as [N]; None where there is none, or it is no vector over the outputs."""
    if bias is None or bias.const_value is None or bias.is_graph_input():
        return None
    array, outputs = bias.const_value.numpy(), layer.shape[0]
    if array.size not in (1, outputs) or (array.size > 1 and array.shape[-1] != outputs):
        return None
    scaled = np.broadcast_to(array.reshape(-1), outputs).astype(np.float32) * np.float32(beta)
    return np.ascontiguousarray(scaled.astype(layer.dtype))
