"""Weights in blocks out of a graph: of ONNX Runtime's and INTact's operators, and behind DequantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import FileFormatError, QuantValueError
from intact.graph import ops
from intact.graph.core.constants import Constants
from intact.graph.core.edit import input_of
from intact.graph.core.quantization_view import FORMATS, is_op
from intact.graph.ops import MICROSOFT
from intact.graph.qdq.packed_weights import packed_bnb4_weight, packed_weight
from intact.numerics import OWN_TABLE, TABLE_FORMATS, BlockWeights, code_values, split_stream

_STORED = {"int4": np.int8, "uint4": np.uint8, "int8": np.int8, "uint8": np.uint8}
_FIX = "quantize the weights again: these are not what the node's attributes say"


def find_block_weights(graph: ir.Graph, constants: Constants) -> Iterator[tuple[str, ir.Node]]:
    """Yield the name of the codes, and the node that reads them, of all weights in blocks of the main graph.

    These are constant codes of a MatMulNBits or MatMulBnb4, of a DequantizeLinear with scales per channel or
    per block, or of INTact's own operators.
    """
    for node in graph:
        is_product = is_op(node, "MatMulNBits", "MatMulBnb4", domain=MICROSOFT)
        at = 1 if is_product or is_block_operator(node) else 0
        if not at and not is_op(node, "DequantizeLinear"):
            continue
        codes = node.inputs[at]
        if (
            codes is None
            or codes.name is None
            or any(v is not None and v not in constants for v in (*node.inputs[1:5], *node.inputs[6:9]))
        ):
            continue
        if at or (codes in constants and codes.dtype in FORMATS and FORMATS[codes.dtype] in _STORED):
            yield codes.name, node


def is_block_operator(node: ir.Node) -> bool:
    """Return whether a node is one of INTact's operators with block weights."""
    return is_op(node, "BlockLinear", "BlockGather", domain=ops.BlockLinear.domain)


def read_block_weight(node: ir.Node, constants: Constants) -> BlockWeights:
    """Return the weights that a node of `find_block_weights` reads; the axis of the blocks comes last.

    Per channel and per tensor, all other axes make one block: [channels, ...] becomes [channels, rest].

    Raises:
        FileFormatError: The parts do not fit; names the node.
    """
    try:
        weights = _READERS.get(node.op_type, _own)(node, constants)
    except QuantValueError as error:
        raise FileFormatError(f"node '{node.name}': {error.where}", error.got, error.want, _FIX) from error
    if weights is None:
        raise FileFormatError(
            f"node '{node.name}' ({node.op_type})", "codes of another layout", "whole blocks", _FIX
        )
    return weights


def _nbits(node: ir.Node, constants: Constants) -> BlockWeights | None:
    arrays = [constants(node.inputs[at]) if at < len(node.inputs) else None for at in range(1, 5)]
    codes, scale, zero, order = arrays
    if codes is None or scale is None:
        return None
    return packed_weight(node, codes, scale, zero, order)


def _bnb4(node: ir.Node, constants: Constants) -> BlockWeights | None:
    codes, scale = constants(input_of(node, 1)), constants(input_of(node, 2))
    return None if codes is None or scale is None else packed_bnb4_weight(node, codes, scale)


def _own(node: ir.Node, constants: Constants) -> BlockWeights | None:
    form = ops.BlockLinear.of(node)
    codes, scales, points, minima, fine, fine_minima, table = (
        constants(input_of(node, at)) for at in (1, 2, 3, 4, 6, 7, 8)
    )
    if codes is None or scales is None or codes.dtype != np.uint8 or codes.ndim != 2:
        return None
    if not 2 <= form.bits <= 8 or form.K < 1 or codes.shape[1] != -(-form.K * form.bits // 8):
        return None
    fields, name = split_stream(codes, form.bits, form.K), f"uint{form.bits}"
    supers, super_minima = None if fine is None else scales, None if fine_minima is None else minima
    scales, minima = scales if fine is None else fine, minima if fine_minima is None else fine_minima
    if table is not None:
        if form.bits != 4 or points is not None:
            return None
        name, table = _name_table(table)
    elif points is None:
        points = np.full(scales.shape, 2 ** (form.bits - 1), np.uint8)
    return BlockWeights(fields, name, scales, form.block, points, minima, supers, super_minima, table=table)


def _name_table(table: NDArray) -> tuple[str, NDArray | None]:
    """Return the format whose table this is; else that of codes with a table of their own, and the table."""
    for name in TABLE_FORMATS:
        values = code_values(name)
        if values is not None and (values.dtype, values.tobytes()) == (table.dtype, table.tobytes()):
            return name, None
    return OWN_TABLE, table


def _behind_dequantize(node: ir.Node, constants: Constants) -> BlockWeights | None:
    codes, scale = constants(node.inputs[0]), constants(node.inputs[1])
    zero = constants(node.inputs[2]) if len(node.inputs) > 2 else None
    value = node.inputs[0]
    if codes is None or scale is None or value is None or value.dtype is None or not codes.ndim:
        return None
    name = FORMATS.get(value.dtype, "")
    if name not in _STORED:
        return None
    form, stored = ops.DequantizeLinear.of(node), _STORED[name]
    axis = 1 if form.axis is None else form.axis
    if scale.size > 1 and not -codes.ndim <= axis < codes.ndim:
        return None
    if form.block_size and scale.ndim == codes.ndim:
        whole, scales, points = (_last(part, axis) for part in (codes, scale, zero))
        size = form.block_size
    else:
        channels = codes.shape[axis] if scale.size > 1 else 1
        if scale.size != channels or not codes.size:
            return None
        whole = (np.moveaxis(codes, axis, 0) if scale.size > 1 else codes).reshape(
            channels, codes.size // channels
        )
        scales = scale.reshape(channels, 1)
        points = None if zero is None or zero.size != scale.size else zero.reshape(channels, 1)
        size = whole.shape[1]
    if whole is None or scales is None:
        return None
    if points is not None:
        points = points.astype(stored) if points.any() else None
    return BlockWeights(whole.astype(stored), name, scales, size, points)


def _last(part: NDArray | None, axis: int) -> NDArray | None:
    return None if part is None else np.ascontiguousarray(np.moveaxis(part, axis, -1))


_READERS = {"MatMulNBits": _nbits, "MatMulBnb4": _bnb4, "DequantizeLinear": _behind_dequantize}
"""Operator -> what reads its weights; INTact's own have `_own`."""
