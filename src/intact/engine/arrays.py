"""Callers' arrays as an engine reads and writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps import Codes, Tensor
from intact.errors import QuantValueError


def as_input(array: Any, name: str, dtype: str) -> NDArray[Any]:
    """A dense array of `dtype`: the same memory where that is possible.

    Raises:
        QuantValueError: It is no array on the CPU, or of another dtype.
    """
    found = _as_numpy(array, f"input '{name}'")
    if found.dtype != np.dtype(dtype):
        raise QuantValueError(f"input '{name}'", f"dtype {found.dtype}", dtype, f"convert it to {dtype}")
    return np.require(found, requirements=["C", "A"])


def as_output(array: Any, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """The array that an output is written into.

    Raises:
        QuantValueError: It has another dtype or shape, or is not dense, aligned and writable.
    """
    found = _as_numpy(array, f"output '{name}'")
    flags = found.flags
    fits = flags.c_contiguous and flags.aligned and flags.writeable
    if found.dtype != np.dtype(dtype) or found.shape != shape or not fits:
        raise QuantValueError(
            f"output '{name}'",
            f"{'a' if fits else 'no dense, writable'} {found.dtype} array of shape {found.shape}",
            f"a dense, writable {dtype} array of shape {shape}",
            "pass such an array, or none to get a new one",
        )
    return found


def check_rows(index: NDArray[Any], size: int, where: str) -> None:
    """Refuse indices of rows that a tensor of `size` rows does not have; negative ones count from the end.

    Raises:
        QuantValueError: One is out of range; names `where`.
    """
    if index.size and not -size <= (low := int(index.min())) <= (high := int(index.max())) < size:
        wrong = low if low < -size else high
        raise QuantValueError(where, f"index {wrong}", f"{-size} to {size - 1}", "give rows that are there")


def rest(size: int, start: int, hop: int) -> int:
    """How many elements a Slice takes to the end of an axis, which the plan does not tell."""
    return len(range(start, size if hop > 0 else -1, hop))


def offset_of(tensor: Tensor) -> int:
    """What bytes have above codes; 0 for floats."""
    return 0 if tensor.codes is None else tensor.codes.offset


def to_bytes(array: NDArray[Any], codes: Codes | None) -> NDArray[Any]:
    """An array of the graph as native steps read it: of codes, bytes, which may lie 128 above signed ones."""
    if codes is None:
        return array
    return array.view(np.uint8) ^ np.uint8(codes.offset) if codes.offset else array.view(np.uint8)


def to_codes(stored: NDArray[Any], codes: Codes | None) -> NDArray[Any]:
    """Memory of native steps as the graph has it: of codes, int8 or uint8, a copy."""
    if codes is None:
        return stored
    found = stored.view(np.uint8) ^ np.uint8(codes.offset)
    return found.view(np.int8) if codes.signed else found


def _as_numpy(array: Any, where: str) -> NDArray[Any]:
    if isinstance(array, np.ndarray):
        return array
    try:
        return np.from_dlpack(array)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise QuantValueError(
            where, type(array).__name__, "a NumPy array, or a tensor with DLPack on the CPU", "convert it"
        ) from error
