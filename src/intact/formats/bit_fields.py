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
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    groups = packed.reshape(*packed.shape[:-1], packed.shape[-1] // group, 1, group)
    fields = (groups >> shifts[:, None]) & np.uint8(2**bits - 1)
    return fields.reshape(*packed.shape[:-1], packed.shape[-1] * len(shifts))


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
