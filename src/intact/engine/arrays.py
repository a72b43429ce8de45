"""Callers' arrays as an engine reads and writes them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.bfloat16_tensors import without_bfloat16
from intact.errors import QuantValueError
from intact.string_arrays import as_strings


def as_input(array: Any, name: str, dtype: str) -> NDArray[Any]:
    """A dense array of `dtype`: the same memory where that is possible. bfloat16 is taken for float32.

    Raises:
        QuantValueError: It is no array on the CPU, or of another dtype.
    """
    found = array if type(array) is np.ndarray else _as_numpy(array, f"input '{name}'")
    if dtype == "object":
        return as_strings(found, f"input '{name}'")
    if found.dtype == ml_dtypes.bfloat16 and dtype == "float32":
        found = found.astype(np.float32)
    if found.dtype != dtype:
        raise QuantValueError(f"input '{name}'", f"dtype {found.dtype}", dtype, f"convert it to {dtype}")
    flags = found.flags
    if flags.c_contiguous and flags.aligned:  # `require` takes a microsecond to say so
        return found
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


def _as_numpy(array: Any, where: str) -> NDArray[Any]:
    if isinstance(array, np.ndarray):
        return array
    if isinstance(array, np.generic):
        return np.asarray(array)
    try:
        return np.from_dlpack(without_bfloat16(array))
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise QuantValueError(
            where, type(array).__name__, "a NumPy array, or a tensor with DLPack on the CPU", "convert it"
        ) from error
