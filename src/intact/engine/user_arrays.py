"""Convert callers' arrays to the arrays that an engine reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.string_arrays import as_strings, without_bfloat16

STRIDED_BYTES = 2**16
"""Of an array that is bound as it lies where it is not dense: NumPy copies a smaller one in less time than a
plan is bound for new strides (100 to 300 microseconds)."""


def as_input(array: Any, name: str, dtype: str, *, strided: bool = False) -> NDArray[Any]:
    """Return an array of `dtype`, in the same memory where possible. bfloat16 is taken for float32.

    Args:
        array: NumPy's, or anything with DLPack on the CPU.
        name: Of the input.
        dtype: Of the array that is wanted.
        strided: Leave large arrays that are not dense where they lie.

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
    if strided and flags.aligned and dense.nbytes >= STRIDED_BYTES:
        return dense
    return np.require(dense, requirements=["C", "A"])


def strides_of(arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the strides, in bytes, of the arrays that are not dense."""
    return {
        name: array.strides
        for name, array in arrays.items()
        if isinstance(array, np.ndarray) and not array.flags.c_contiguous
    }


def as_output(
    array: Any, name: str, dtype: str, shape: tuple[int, ...], *, strided: bool = False
) -> NDArray[Any]:
    """Return the array that an output is written into.

    Raises:
        QuantValueError: It has another dtype or shape, or is not aligned and writable; or, unless `strided`,
            not dense.
    """
    target = _as_numpy(array, f"output '{name}'")
    flags = target.flags
    fits = (strided or flags.c_contiguous) and flags.aligned and flags.writeable
    if target.dtype != np.dtype(dtype) or target.shape != shape or not fits:
        kind = "writable" if strided else "dense, writable"
        raise QuantValueError(
            f"output '{name}'",
            f"{'a' if fits else f'no {kind}'} {target.dtype} array of shape {target.shape}",
            f"a {kind} {dtype} array of shape {shape}",
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
