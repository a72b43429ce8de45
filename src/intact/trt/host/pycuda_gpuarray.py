"""``pycuda.gpuarray`` on host memory: arrays that scripts fill, hand over by address, and read back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class GPUArray:
    """A dense array in host memory.

    Attributes:
        shape, dtype, size, nbytes: As of the NumPy array that it holds.
    """

    def __init__(self, shape: Any, dtype: DTypeLike, *_: Any, **__: Any) -> None:
        self._array: NDArray[Any] = np.zeros(shape, dtype)

    shape = property(lambda self: self._array.shape)
    dtype = property(lambda self: self._array.dtype)
    size = property(lambda self: self._array.size)
    nbytes = property(lambda self: self._array.nbytes)
    ptr = property(lambda self: self._array.ctypes.data)
    gpudata = property(lambda self: self._array.ctypes.data)

    def __int__(self) -> int:
        return int(self.ptr)

    def __len__(self) -> int:
        return len(self._array)

    def get(self, ary: NDArray[Any] | None = None, *_: Any, **__: Any) -> NDArray[Any]:
        """Copy the array to NumPy, into `ary` where it is given."""
        if ary is None:
            return self._array.copy()
        ary[...] = self._array.reshape(ary.shape)
        return ary

    def get_async(
        self, stream: Any = None, ary: NDArray[Any] | None = None, *_: Any, **__: Any
    ) -> NDArray[Any]:
        """Copy the array as `get` does: the copy is complete when the call returns."""
        return self.get(ary)

    def set(self, ary: NDArray[Any], *_: Any, **__: Any) -> None:
        """Take the values of `ary`.

        Raises:
            ValueError: It has another number of elements.
        """
        self._array[...] = np.asarray(ary).reshape(self._array.shape)

    set_async = set

    def fill(self, value: Any, stream: Any = None) -> GPUArray:
        """Set every element to `value`."""
        self._array[...] = value
        return self

    def reshape(self, *shape: Any) -> GPUArray:
        """Return the same memory in another shape."""
        view = GPUArray((), self.dtype)
        view._array = self._array.reshape(*shape)
        return view


def empty(shape: Any, dtype: DTypeLike = np.float64, *_: Any, **__: Any) -> GPUArray:
    """Allocate an array, which is filled with zeros here."""
    return GPUArray(shape, dtype)


zeros = empty


def empty_like(other: Any, *_: Any, **__: Any) -> GPUArray:
    """Allocate an array of the shape and type of `other`, which is filled with zeros here."""
    return GPUArray(other.shape, other.dtype)


zeros_like = empty_like


def to_gpu(ary: Any, *_: Any, **__: Any) -> GPUArray:
    """Copy the values of `ary` to a new array."""
    array = GPUArray(np.shape(ary), np.asarray(ary).dtype)
    array.set(ary)
    return array


to_gpu_async = to_gpu
