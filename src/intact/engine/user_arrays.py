"""Convert callers' arrays to the dense arrays that an engine reads and writes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.bfloat16_tensors import without_bfloat16
from intact.errors import QuantValueError
from intact.string_arrays import as_strings


def as_input(array: Any, name: str, dtype: str) -> NDArray[Any]:
    """Return a dense array of `dtype`, in the same memory where possible. bfloat16 is taken for float32.

    Raises:
        QuantValueError: It is no array on the CPU, or of another dtype.
    """
    dense = array if type(array) is np.ndarray else _as_numpy(array, f"input '{name}'")
    if dtype == "object":
        return as_strings(dense, f"input '{name}'")
    if dense.dtype != dtype:
        if dense.dtype != ml_dtypes.bfloat16 or dtype != "float32":
            raise QuantValueError(f"input '{name}'", f"dtype {dense.dtype}", dtype, f"convert it to {dtype}")
        dense = dense.astype(np.float32)
    flags = dense.flags
    if flags.c_contiguous and flags.aligned:  # `require` takes a microsecond to say so
        return dense
    return np.require(dense, requirements=["C", "A"])


def as_output(array: Any, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the array that an output is written into.

    Raises:
        QuantValueError: It has another dtype or shape, or is not dense, aligned and writable.
    """
    target = _as_numpy(array, f"output '{name}'")
    flags = target.flags
    fits = flags.c_contiguous and flags.aligned and flags.writeable
    if target.dtype != np.dtype(dtype) or target.shape != shape or not fits:
        raise QuantValueError(
            f"output '{name}'",
            f"{'a' if fits else 'no dense, writable'} {target.dtype} array of shape {target.shape}",
            f"a dense, writable {dtype} array of shape {shape}",
            "pass such an array, or none to get a new one",
        )
    return target


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
