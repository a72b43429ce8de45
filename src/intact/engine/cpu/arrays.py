"""Convert arrays of the graph to those of native steps, which hold codes as unsigned bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps import Codes, Tensor


def dtype_of(tensor: Tensor) -> str:
    """Return the dtype of a tensor's elements in memory: codes are bytes."""
    return "uint8" if tensor.codes is not None else tensor.stored_dtype


def to_bytes(array: NDArray[Any], codes: Codes | None) -> NDArray[Any]:
    """Convert an array of the graph to what native steps read: codes to bytes, 128 above signed codes."""
    if codes is None:
        return array
    return array.view(np.uint8) ^ np.uint8(codes.offset) if codes.offset else array.view(np.uint8)


def to_codes(stored: NDArray[Any], codes: Codes | None) -> NDArray[Any]:
    """Memory of native steps as the graph has it: of codes, int8 or uint8, a copy."""
    if codes is None:
        return stored
    values = stored.view(np.uint8) ^ np.uint8(codes.offset)
    return values.view(np.int8) if codes.signed else values
