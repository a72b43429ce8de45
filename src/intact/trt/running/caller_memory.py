"""The caller's memory of a tensor: its bytes follow from the type that the caller is told.

Every read and every write of a caller's memory goes through `CallerTensor`. The plan may compute in another
type than the caller knows (float32 for bfloat16); values are converted on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.trt.base.enums import DataType
from intact.trt.base.itensor import Sizes, at_address, is_address, pack, unpack


@dataclass(frozen=True)
class CallerTensor:
    """A dense tensor in a caller's memory, with the sizes of one run.

    Attributes:
        name: Of the tensor.
        dtype: The type that the caller is told.
        shape: Its sizes, all known.
        inside: The type that the plan has.
    """

    name: str
    dtype: DataType
    shape: Sizes
    inside: np.dtype

    @property
    def nbytes(self) -> int:
        """Bytes that the caller needs, and the most that are written."""
        return self.dtype.bytes_of(prod(self.shape))

    def read(self, memory: Any) -> NDArray:
        """Return the values in `memory`, as the plan wants them; a view where types are equal."""
        array = self._values(memory)
        return array if array.dtype == self.inside else array.astype(self.inside)

    def in_place(self, memory: Any) -> NDArray | None:
        """Return `memory` as an array that the plan can write into; None where `write` must convert."""
        if self.dtype.bits < 8 or self.dtype.numpy != self.inside:
            return None
        array = self._values(memory)
        return array if array.flags.writeable and array.flags.aligned else None

    def write(self, memory: Any, values: NDArray) -> None:
        """Write the values of a run, in the caller's type.

        Raises:
            QuantValueError: They have other sizes than the caller was told, or the memory does not fit.
        """
        converted = self.convert(values)
        if not is_address(memory) and self._is_own(array := _array_of_memory(memory)):
            array.reshape(self.shape)[...] = converted
        else:
            self._bytes(memory)[...] = pack(converted, self.dtype)

    def convert(self, values: NDArray) -> NDArray:
        """Return values of the plan in the caller's type.

        Raises:
            QuantValueError: They have other sizes than the caller was told.
        """
        if tuple(values.shape) != tuple(self.shape):
            raise QuantValueError(
                f"tensor '{self.name}'", f"{values.shape} from the run", f"{self.shape}, as was told before",
                "set an IOutputAllocator, which is told the sizes of each run",
            )  # fmt: skip
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(self.dtype.numpy, copy=False)

    def _values(self, memory: Any) -> NDArray:
        """Return the values in `memory`: a view of them, but for those of 4 bits."""
        if not is_address(memory) and self._is_own(array := _array_of_memory(memory)):
            return array.reshape(self.shape)
        return unpack(self._bytes(memory), self.dtype, prod(self.shape)).reshape(self.shape)

    def _is_own(self, array: NDArray) -> bool:
        """Return whether an array has the caller's type, with as many values, one behind the other."""
        fits = array.size == prod(self.shape) and array.flags.c_contiguous
        return bool(fits and array.dtype == self.dtype.numpy)

    def _bytes(self, memory: Any) -> NDArray[np.uint8]:
        """Return the bytes of the tensor in `memory`: an address, or an array of that many bytes.

        Raises:
            QuantValueError: An array has another number of bytes, or another type of at least one byte.
        """
        if not self.nbytes:
            return np.empty(0, np.uint8)
        if is_address(memory):
            return at_address(int(memory), (self.nbytes,), np.dtype(np.uint8))
        array = _array_of_memory(memory)
        is_raw = array.dtype.kind in "uV" and array.dtype.itemsize == max(self.dtype.bits // 8, 1)
        if array.nbytes != self.nbytes or not array.flags.c_contiguous or not is_raw:
            raise QuantValueError(
                f"tensor '{self.name}'", f"an array of {array.dtype} and shape {array.shape}",
                f"a dense one of {self.dtype.numpy} and {self.shape}", "convert or reshape it",
            )  # fmt: skip
        raw: NDArray[np.uint8] = array.reshape(-1).view(np.uint8)
        return raw


def _array_of_memory(memory: Any) -> NDArray:
    """Return the array that `memory` is; raw elements for a tensor whose type NumPy lacks."""
    if isinstance(memory, np.ndarray):
        return memory
    try:
        return np.from_dlpack(memory)
    except (BufferError, RuntimeError, TypeError, ValueError):
        if hasattr(memory, "data_ptr") and memory.is_contiguous():  # torch.bfloat16, which NumPy lacks
            return at_address(memory.data_ptr(), (memory.numel(),), np.dtype(f"V{memory.element_size()}"))
        raise
