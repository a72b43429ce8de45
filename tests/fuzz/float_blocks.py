"""Products with INTact's own block weights as products of floats, for ONNX Runtime to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from intact.graph import ops
from intact.numerics import split_stream


def with_float_blocks(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with BlockLinear as MatMul and Add, and BlockGather as Gather, of float constants."""
    arrays = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = list(model.graph.node)
    if all(node.domain != ops.BlockLinear.domain for node in nodes):
        return model
    del model.graph.node[:]
    for node in nodes:
        if node.domain != ops.BlockLinear.domain:
            model.graph.node.append(node)
            continue
        (y,) = node.output
        names = [*node.input, *[""] * (9 - len(node.input))]
        constants = {at: numpy_helper.to_array(arrays[names[at]]) for at in range(1, 9) if names[at]}
        attributes = {entry.name: entry.i for entry in node.attribute}
        weight = _floats(constants, attributes["K"], attributes["bits"], attributes["block"])
        is_table = node.op_type == "BlockGather"
        model.graph.initializer.append(numpy_helper.from_array(weight if is_table else weight.T, f"{y}.w"))
        if is_table:
            model.graph.node.append(helper.make_node("Gather", [f"{y}.w", names[0]], [y]))
            continue
        product = f"{y}.product" if names[5] else y
        model.graph.node.append(helper.make_node("MatMul", [names[0], f"{y}.w"], [product]))
        if names[5]:
            model.graph.node.append(helper.make_node("Add", [product, names[5]], [y]))
    return model


def _floats(constants: Mapping[int, NDArray[Any]], k: int, bits: int, block: int) -> NDArray[np.float32]:
    """Return (q - z) * s + m, or t[q] * s + m, of operands by number, [rows, K]."""
    codes = split_stream(constants[1], bits, k)
    blocks = -(-k // block)

    def each(values: NDArray[Any], fine: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a number for each element, of those for each block or super-block."""
        whole = np.repeat(values.astype(np.float32), blocks // values.shape[1], axis=1)
        whole = whole if fine is None else whole * fine.astype(np.float32)
        return np.repeat(whole, block, axis=1)[:, :k]

    zeros = each(constants[3]) if 3 in constants else 2.0 ** (bits - 1)
    steps = constants[8][codes].astype(np.float64) if 8 in constants else codes.astype(np.float64) - zeros
    minima = each(constants[4], constants.get(7)) if 4 in constants else 0.0
    return (steps * each(constants[2], constants.get(6)) + minima).astype(np.float32)
