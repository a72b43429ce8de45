"""Fields of 1, 2, 4 and 8 bits in bytes, in the orders that file formats use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def split_fields(packed: Bytes, bits: int, group: int = 1) -> Bytes:
    """Unpack fields of `bits` bits, of `group` neighbouring bytes first the lowest field of each.

    With group 1 the fields of one byte are neighbours, the lowest first; with a larger one a group gives
    all its lowest fields, then the next ones, as ggml stores codes.

    Args:
        packed: uint8 [..., n], n a multiple of `group`.
        bits: 1, 2, 4 or 8.
    Returns:
        uint8 [..., n * 8 / bits].
    """
    each = 8 // bits
    groups = packed.reshape(*packed.shape[:-1], packed.shape[-1] // group, group)
    fields = np.empty((*groups.shape[:-1], each, group), np.uint8)
    for index in range(each):  # 8 times as fast as one shift by all numbers, whose inner loops are short
        np.right_shift(groups, np.uint8(index * bits), out=fields[..., index, :])
    fields &= np.uint8(2**bits - 1)
    return fields.reshape(*packed.shape[:-1], packed.shape[-1] * each)


def join_fields(fields: Bytes, bits: int, group: int = 1) -> Bytes:
    """Pack fields as `split_fields` unpacks them.

    Args:
        fields: uint8 [..., n * 8 / bits], below ``2 ** bits``.
    Returns:
        uint8 [..., n].
    """
    each = 8 // bits
    size = fields.shape[-1] // each
    groups = fields.reshape(*fields.shape[:-1], size // group, each, group)
    result = np.zeros((*fields.shape[:-1], size // group, group), np.uint8)
    for index in range(each):
        result |= groups[..., index, :] << np.uint8(index * bits)
    return result.reshape(*fields.shape[:-1], size)


def split_stream(packed: Bytes, bits: int, count: int) -> Bytes:
    """Unpack `count` fields that follow each other bit by bit, the lowest bit first, over the ends of bytes.

    Args:
        packed: uint8 [..., n], n * 8 at least ``count * bits``.
        bits: 1 to 8.
    Returns:
        uint8 [..., count].
    """
    if 8 % bits == 0:
        return split_fields(packed, bits)[..., :count]
    each = np.unpackbits(packed, axis=-1, bitorder="little")[..., : count * bits]
    fields = each.reshape(*packed.shape[:-1], count, bits)
    return np.packbits(fields, axis=-1, bitorder="little")[..., 0]


def join_stream(fields: Bytes, bits: int, unit: int = 4) -> Bytes:
    """Pack fields as `split_stream` unpacks them, filled up with zeros to a multiple of `unit` bytes.

    Args:
        fields: uint8 [..., count], below ``2 ** bits``.
    Returns:
        uint8 [..., n].
    """
    count = fields.shape[-1]
    size = -(-count * bits // (8 * unit)) * unit
    if 8 % bits == 0:
        whole = np.zeros((*fields.shape[:-1], size * 8 // bits), np.uint8)
        whole[..., :count] = fields
        return join_fields(whole, bits)
    each = np.unpackbits(fields[..., None], axis=-1, bitorder="little")[..., :bits]
    stream = np.zeros((*fields.shape[:-1], size * 8), np.uint8)
    stream[..., : count * bits] = each.reshape(*fields.shape[:-1], count * bits)
    return np.packbits(stream, axis=-1, bitorder="little")
