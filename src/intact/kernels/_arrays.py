"""Conversion of arrays for the native module, and of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.limits import THREADS
from intact.numerics import to_float32

DTYPE_NAMES = {
    np.dtype(t): np.dtype(t).name for t in (np.float32, np.float16, ml_dtypes.bfloat16, np.float64)
}
"""The dtypes that the native code reads, with the names it knows them by (dtype.name is slow)."""


def thread_pool_size(threads: int) -> int:
    """Return the number of threads that a call may start: `threads`, at least 1.

    Raises:
        QuantValueError: More than the limit.
    """
    THREADS.check(threads, "threads", QuantValueError)
    return max(1, int(threads))


def real_array(x: ArrayLike) -> NDArray[Any]:
    """Convert `x` to one of `REAL_DTYPES` in native byte order; any other dtype becomes float32."""
    array = np.asarray(x)
    if array.dtype in DTYPE_NAMES:
        return array
    native = array.dtype.newbyteorder("=")
    return array.astype(native) if native in DTYPE_NAMES else to_float32(array)


def dense(x: NDArray[Any], order: tuple[int, ...]) -> NDArray[Any]:
    """Transpose `x` to `order` for the native module; copy it only if it is not dense and aligned.

    NumPy's buffer protocol lacks bfloat16, so both 16-bit dtypes are passed as their bits, and so are codes.
    """
    array = np.ascontiguousarray(x.transpose(order))
    array = array if array.flags.aligned else array.copy()
    bits = {1: np.uint8, 2: np.uint16}.get(array.dtype.itemsize)
    return array if bits is None else array.view(bits)


def empty_like(x: NDArray[Any], order: tuple[int, ...], dtype: Any = None) -> NDArray[Any]:
    """Allocate an array of the shape of `x`, dense in `order`."""
    shape = tuple(x.shape[axis] for axis in order)
    return np.empty(shape, dtype or x.dtype).transpose(inverse(order))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """Return the transpose that undoes `order`."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def target(
    out: NDArray[Any] | None, like: NDArray[Any], order: tuple[int, ...], *reads: NDArray[Any]
) -> NDArray[Any]:
    """Return the array that native code writes.

    It is `out` itself if that is dense in `order` and does not overlap inputs.

    Args:
        out: The caller's array, or None.
        like: Gives shape and dtype of the result.
        order: Memory order of the result.
        reads: Inputs. `out` may be one of them, because elements are read before they are written.
    Raises:
        QuantValueError: `out` has another shape or dtype, or is read-only.
    """
    if out is None:
        return empty_like(like, order)
    check_out(out, like)
    apart = all(out is x or not np.may_share_memory(out, x) or _same(out, x) for x in reads)
    fits = out.flags.aligned and out.transpose(order).flags.c_contiguous
    return out if fits and apart else empty_like(like, order)


def give(y: NDArray[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    """Return the result `y`, copied to `out` if the caller passed one."""
    if out is None or out is y:
        return y
    check_out(out, y)
    out[...] = y
    return out


def check_out(out: NDArray[Any], like: NDArray[Any]) -> None:
    """Check that `out` can hold a result like `like`.

    Raises:
        QuantValueError: Its shape or dtype differs, or it is read-only.
    """
    if out.shape == like.shape and out.dtype == like.dtype and out.flags.writeable:
        return
    raise QuantValueError(
        "out",
        f"{'' if out.flags.writeable else 'read-only '}{out.dtype} of shape {out.shape}",
        f"a writable array of {like.dtype}, shape {like.shape}",
        "pass an array like the result, or leave `out` away",
    )


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    place_a, place_b = a.__array_interface__["data"][0], b.__array_interface__["data"][0]
    return bool(place_a == place_b and a.strides == b.strides and a.dtype == b.dtype)
