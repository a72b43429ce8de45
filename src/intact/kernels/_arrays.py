"""Arrays on their way into and out of the native module."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics import REAL_DTYPES, to_float32


def real_array(x: ArrayLike) -> NDArray[Any]:
    """`x` as an array of one of `REAL_DTYPES` in native byte order; any other dtype becomes float32."""
    array = np.asarray(x)
    if array.dtype.name in REAL_DTYPES:
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return to_float32(array)


def dense(x: NDArray[Any], order: tuple[int, ...]) -> NDArray[Any]:
    """`x` as the native module takes it: transposed to `order`, copied only if that is not dense yet.

    NumPy cannot hand bfloat16 to other code, so both 16-bit dtypes travel as their bits.
    """
    array = np.ascontiguousarray(x.transpose(order))
    return array.view(np.uint16) if array.dtype.itemsize == 2 else array


def empty_like(x: NDArray[Any], order: tuple[int, ...], dtype: Any = None) -> NDArray[Any]:
    """A new array of the shape of `x`, dense in `order`."""
    shape = tuple(x.shape[axis] for axis in order)
    back = np.argsort(order) if order else ()
    return np.empty(shape, dtype or x.dtype).transpose(tuple(int(axis) for axis in back))


def target(out: NDArray[Any] | None, like: NDArray[Any], order: tuple[int, ...], *reads: NDArray[Any]
           ) -> NDArray[Any]:
    """Where the native code writes: `out` itself when it lies like `like` and overlaps no input by half.

    Args:
        out: The caller's array, or None.
        like: Gives shape and dtype of the result.
        order: Memory order of the result.
        reads: Inputs; `out` may be one of them.
    Raises:
        QuantValueError: `out` has another shape or dtype, or is read-only.
    """
    if out is None:
        return empty_like(like, order)
    if out.shape != like.shape or out.dtype != like.dtype or not out.flags.writeable:
        raise QuantValueError(
            "out",
            f"{'' if out.flags.writeable else 'read-only '}{out.dtype} of shape {out.shape}",
            f"a writable array of {like.dtype}, shape {like.shape}",
            "pass an array like the result, or leave `out` away",
        )
    fits = out.transpose(order).flags.c_contiguous
    apart = all(_same(out, x) or not np.may_share_memory(out, x) for x in reads)
    return out if fits and apart else empty_like(like, order)


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    same_place = a.__array_interface__["data"] == b.__array_interface__["data"]
    return same_place and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype
