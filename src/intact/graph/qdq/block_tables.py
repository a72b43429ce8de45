"""Tables of codes in blocks whose rows are gathered.

GatherBlockQuantized and BlockGather have their own; others lie behind a DequantizeLinear.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import FileFormatError, QuantValueError
from intact.graph import ops
from intact.graph.core.constants import Constants
from intact.graph.core.edit import input_of
from intact.graph.core.quantization_view import FORMATS, is_op
from intact.graph.ops import MICROSOFT
from intact.graph.qdq.block_weights import is_block_operator, read_block_weight
from intact.numerics import BlockWeights, split_fields

_STORED = {"int4": np.int8, "uint4": np.uint8, "int8": np.int8, "uint8": np.uint8}


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Holds a constant table whose rows are gathered, with its axes in the order gathered, others, quantized.

    Attributes:
        name: The codes in the graph.
        weights: [rows, elements]: the axes behind the first one are joined.
        sizes: The sizes of all axes in that order.
        axis: Where the gathered axis is in the graph's order.
        order: The axis of the graph for each axis of the table.
    """

    name: str
    weights: BlockWeights
    sizes: tuple[int, ...]
    axis: int
    order: tuple[int, ...]


def read_block_table(gather: ir.Node, constants: Constants) -> BlockTable | str:
    """Return the table that a GatherBlockQuantized or BlockGather reads, or a Gather of a DequantizeLinear.

    Returns:
        The table; else, as a clause, why its rows are none of blocks along another axis.
    """
    if is_op(gather, "GatherBlockQuantized", domain=MICROSOFT):
        return _of_gather(gather, constants)
    if is_block_operator(gather):
        return _of_own(gather, constants)
    source = gather.inputs[0].producer() if gather.inputs and gather.inputs[0] is not None else None
    if source is None or not is_op(source, "DequantizeLinear"):
        return "it reads no codes"
    return _of_dequantize(source, ops.Gather.of(gather).axis, constants)


def _of_own(node: ir.Node, constants: Constants) -> BlockTable | str:
    codes = input_of(node, 1)
    try:
        weights = read_block_weight(node, constants)
    except FileFormatError as error:
        return f"{error.where} is {error.got}"
    name = (codes.name if codes is not None else None) or node.name or ""
    return BlockTable(name, weights, weights.shape, 0, (0, 1))


def _of_gather(node: ir.Node, constants: Constants) -> BlockTable | str:
    form = ops.GatherBlockQuantized.of(node)
    codes, scales, zero = (constants(input_of(node, at)) for at in (0, 2, 3))
    name = _format(node.inputs[0])
    if codes is None or scales is None or (zero is None and input_of(node, 3) is not None):
        return "its table is computed"
    if name is None:
        return "its codes are no integers of 4 or 8 bits"
    codes = codes.astype(_STORED[name])
    if name == "uint8":
        if form.bits not in (2, 4, 8):
            return f"its codes have {form.bits} bits"
        codes, name = split_fields(codes, form.bits), f"uint{form.bits}"
        count = scales.shape[-1] if scales.ndim else 0
        zero = None if zero is None else split_fields(zero.astype(np.uint8), form.bits)[..., :count]
        if zero is None:
            zero = np.full(scales.shape, 2 ** (form.bits - 1), np.uint8)
    return _turn_table(node, codes, name, scales, zero, form.gather_axis, form.quantize_axis, form.block_size)


def _of_dequantize(node: ir.Node, gather_axis: int, constants: Constants) -> BlockTable | str:
    form = ops.DequantizeLinear.of(node)
    codes, scales, zero = (constants(input_of(node, at)) for at in (0, 1, 2))
    name = _format(node.inputs[0])
    if codes is None or scales is None or (zero is None and input_of(node, 2) is not None):
        return "its table is computed"
    if name is None or not -codes.ndim <= gather_axis < codes.ndim or codes.ndim < 2:
        return "its codes are no matrix of integers of 4 or 8 bits"
    codes = codes.astype(_STORED[name])
    axis = 1 if form.axis is None else form.axis
    if form.block_size:
        return _turn_table(node, codes, name, scales, zero, gather_axis, axis, form.block_size)
    gather_axis %= codes.ndim
    if scales.size > 1 and axis % codes.ndim != gather_axis:
        return "its scales are those of another axis than it gathers along"
    # Each row has one scale: it is a block along the last of the other axes, which are joined.
    turned = np.moveaxis(codes, gather_axis, 0)
    sizes, rows = turned.shape, turned.shape[0]
    if not codes.size or scales.size not in (1, rows):
        return "its scales do not fit its codes"
    spread = [
        None if part is None else np.broadcast_to(part.reshape(-1, 1), (rows, 1)) for part in (scales, zero)
    ]
    flat = np.ascontiguousarray(turned.reshape(rows, -1))
    order = (gather_axis, *(at for at in range(codes.ndim) if at != gather_axis))
    return _block_table(node, flat, name, spread[0], spread[1], flat.shape[1], sizes, order)


def _format(value: ir.Value | None) -> str | None:
    name = FORMATS.get(value.dtype) if value is not None and value.dtype is not None else None
    return name if name in _STORED else None


def _turn_table(
    node: ir.Node, codes: NDArray, name: str, scales: NDArray, zero: NDArray | None, gather_axis: int,
    quantize_axis: int, block: int,
) -> BlockTable | str:  # fmt: skip
    """Turn codes in blocks along one axis into rows along another."""
    rank = codes.ndim
    if not (-rank <= gather_axis < rank and -rank <= quantize_axis < rank) or block < 1 or not codes.size:
        return "its axes or blocks are none of its table's"
    gathered, quantized = gather_axis % rank, quantize_axis % rank
    if gathered == quantized:
        return "its blocks go along the axis that it gathers along"
    blocks = tuple(-(-n // block) if at == quantized else n for at, n in enumerate(codes.shape))
    if scales.shape != blocks or (zero is not None and zero.shape != blocks):
        return "its scales do not fit its codes"
    order = (gathered, *(at for at in range(rank) if at not in (gathered, quantized)), quantized)
    sizes = tuple(codes.shape[at] for at in order)
    if prod(sizes[1:-1]) > 1 and sizes[-1] % block:
        return "its rows are several, of which each ends within a block"
    parts = [
        None if part is None else np.ascontiguousarray(part.transpose(order)).reshape(sizes[0], -1)
        for part in (codes, scales, zero)
    ]
    return _block_table(node, parts[0], name, parts[1], parts[2], block, sizes, order)


def _block_table(
    node: ir.Node, codes: NDArray | None, name: str, scales: NDArray | None, zero: NDArray | None, block: int,
    sizes: tuple[int, ...], order: tuple[int, ...],
) -> BlockTable | str:  # fmt: skip
    assert codes is not None and scales is not None
    points = None if zero is None else zero.astype(codes.dtype)
    try:
        weights = BlockWeights(codes, name, scales, block, points if points is None or points.any() else None)
    except QuantValueError as error:
        return f"its {error.where} is {error.got}"
    source = node.inputs[0]
    name = (source.name if source is not None else None) or node.name or ""
    return BlockTable(name, weights, sizes, order[0], order)
