"""Unpack the weights of MatMulNBits, of 2, 4 or 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph import ops


def unpack_weight(
    node: ir.Node, codes: NDArray[Any], scale: NDArray[np.float32], zero: NDArray[Any] | None
) -> NDArray[np.float32] | None:
    """Unpack the weight of a MatMulNBits to float32 [K, N]; None where its parts contradict its attributes.

    Args:
        node: It says K, N, bits (2, 4 or 8) and block_size.
        codes: uint8 [N, blocks, block_size * bits / 8], the first code in the lowest bits.
        scale: One for each block of each column.
        zero: As many floats, or codes packed column by column; None: the middle, ``2 ** (bits - 1)``.
    """
    form = ops.MatMulNBits.of(node)
    k, n, bits, block = form.K, form.N, form.bits, form.block_size
    if bits not in (2, 4, 8) or min(k, n, block) < 1 or codes.dtype != np.uint8:
        return None
    blocks = -(-k // block)
    if codes.size * 8 != n * blocks * block * bits or scale.size != n * blocks:
        return None
    whole = _codes(codes.reshape(n, -1), bits).reshape(n, blocks, block).astype(np.float32)
    if zero is None:
        offset = np.full((n, blocks), 2 ** (bits - 1), np.float32)
    elif zero.dtype == np.uint8:
        if zero.size != n * -(-blocks * bits // 8):
            return None
        offset = _codes(zero.reshape(n, -1), bits)[:, :blocks].astype(np.float32)
    elif zero.size == n * blocks:
        offset = zero.reshape(n, blocks).astype(np.float32)
    else:
        return None
    floats = (whole - offset[..., None]) * scale.reshape(n, blocks, 1)
    return np.ascontiguousarray(floats.reshape(n, -1)[:, :k].T, np.float32)


def _codes(rows: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Return the codes of each row, lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((rows[..., None] >> shifts) & np.uint8(2**bits - 1)).reshape(len(rows), -1)
