"""Read the weights of MatMulNBits, of 2, 4 or 8 bits, and of MatMulBnb4."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph import ops
from intact.numerics import OWN_TABLE, BlockWeights, dequantize_blocks, split_fields

_FP4 = (0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
"""Values of bitsandbytes' fp4 in the order of its codes, which the negative ones follow.

Source: ONNX Runtime, blockwise_quant_block_bnb4.h."""


def unpack_weight(
    node: ir.Node, codes: NDArray[Any], scale: NDArray[np.float32], zero: NDArray[Any] | None
) -> NDArray[np.float32] | None:
    """Return the weight of a MatMulNBits as float32 [K, N]. Arguments, and None, as for `packed_weight`."""
    weights = packed_weight(node, codes, scale, zero)
    return None if weights is None else np.ascontiguousarray(dequantize_blocks(weights).T)


def packed_weight(
    node: ir.Node, codes: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any] | None,
    order: NDArray[Any] | None = None,
) -> BlockWeights | None:  # fmt: skip
    """Return the weight of a MatMulNBits, [N, K]; None where its parts are not as its attributes say.

    Args:
        node: It says K, N, bits (2, 4 or 8) and block_size.
        codes: uint8 [N, blocks, block_size * bits / 8], the first code in the lowest bits.
        scale: One for each block of each column.
        zero: As many floats, or codes packed column by column; None: the middle, ``2 ** (bits - 1)``.
        order: The block of each row of the weight, int32 [K]; None: neighbours share one.
    """
    form = ops.MatMulNBits.of(node)
    k, n, bits, block = form.K, form.N, form.bits, form.block_size
    if bits not in (2, 4, 8) or min(k, n, block) < 1 or codes.dtype != np.uint8:
        return None
    blocks = -(-k // block)
    if codes.size * 8 != n * blocks * block * bits or scale.size != n * blocks:
        return None
    whole, scales = split_fields(codes.reshape(n, -1), bits)[:, :k], scale.reshape(n, blocks)
    if zero is None:
        points = np.broadcast_to(np.uint8(2 ** (bits - 1)), (n, blocks))
    elif zero.dtype == np.uint8:
        if zero.size != n * -(-blocks * bits // 8):
            return None
        points = split_fields(zero.reshape(n, -1), bits)[:, :blocks]
    elif zero.size == n * blocks:
        points = zero.reshape(n, blocks)
    else:
        return None
    try:
        return BlockWeights(whole, f"uint{bits}", scales, block, points, groups=_groups(order, k, block))
    except QuantValueError:  # scales or zero points of a dtype that no runtime takes
        return None


def packed_bnb4_weight(node: ir.Node, codes: NDArray[Any], scale: NDArray[Any]) -> BlockWeights | None:
    """Return the weight of a MatMulBnb4, [N, K]; None where its parts are not as its attributes say.

    Args:
        node: It says K, N, block_size, and quant_type: 0 for bitsandbytes' fp4, 1 for nf4.
        codes: uint8 [N * K / 2], the first of two codes in the high bits.
        scale: One for each block of neighbours; a block within one row.
    """
    form = ops.MatMulBnb4.of(node)
    k, n, block = form.K, form.N, form.block_size
    if min(k, n, block) < 1 or k % block or form.quant_type not in (0, 1) or not form.transB:
        return None
    if codes.dtype != np.uint8 or codes.size != (n * k + 1) // 2 or scale.size * block != n * k:
        return None
    pairs = codes.reshape(-1, 1) >> np.array([4, 0], np.uint8) & np.uint8(15)
    table = None if form.quant_type else np.array([*_FP4, *(-value for value in _FP4)], np.float32)
    name = "nf4" if form.quant_type else OWN_TABLE
    try:
        return BlockWeights(
            pairs.reshape(-1)[: n * k].reshape(n, k), name, scale.reshape(n, k // block), block, table=table
        )
    except QuantValueError:  # scales of a dtype that no runtime takes
        return None


def _groups(order: NDArray[Any] | None, k: int, block: int) -> NDArray[Any] | None:
    """Return the blocks of elements whose neighbours do not share one."""
    is_plain = order is None or np.array_equal(order.reshape(-1), np.arange(k) // block)
    return None if is_plain or order is None else order.reshape(-1)
