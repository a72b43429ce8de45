"""ITensor and Weights: the tensors that layers pass to each other, and constant arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from enum import Enum
from math import prod
from numbers import Integral
from operator import index
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import CalibrationError, QuantValueError
from intact.trt.base.dialects import Dialect, DialectChoice
from intact.trt.base.enums import DataType, TensorLocation, dtype_of
from intact.trt.base.host_interfaces import ILogger
from intact.trt.base.removed_members import RemovedMemberError, hide_removed
from intact.trt.base.trt_object import Interface

Result = TypeVar("Result")
Sizes = tuple[int, ...]
"""Sizes, or strides and the like; -1 is a size that is not known before the network runs."""


class Dims(list[int]):
    """Sizes, or strides and the like, from a sequence or from numbers; each may be set, the count stays.

    Equal to a tuple of the same numbers. Layers keep what it holds when it is given to them.
    """

    MAX_DIMS: ClassVar[int] = 8

    def __init__(self, *sizes: Any) -> None:
        from_sequence = len(sizes) == 1 and not isinstance(sizes[0], (int, np.integer))
        super().__init__(map(int, sizes[0] if from_sequence else sizes))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(tuple(self))

    def numel(self) -> int:
        """Number of elements."""
        return prod(self)


def plain(value: Any) -> Any:
    """Return `value`, with a sequence of integers of any kind as a tuple of Python's own."""
    if not isinstance(value, (tuple, list)):
        return value
    numbers = all(isinstance(n, Integral) and not isinstance(n, (bool, Enum)) for n in value)
    return tuple(map(index, value)) if numbers else value


class Dims2(Dims):
    """Two sizes."""


class Dims3(Dims):
    """Three sizes."""


class Dims4(Dims):
    """Four sizes."""


class DimsHW(Dims2):
    """Height and width."""

    h = property(lambda self: self[0])
    w = property(lambda self: self[1])


class Permutation(Dims):
    """An order of axes."""


class DimsExprs(list[Any]):
    """The sizes that a plugin computes with."""

    def __init__(self, sizes: Any = ()) -> None:
        super().__init__([None] * sizes if isinstance(sizes, int) else sizes)


def volume(shape: Iterable[int]) -> int:
    """Return the number of elements of a tensor of `shape`; negative where a size is unknown."""
    return prod(shape)


def at_address(address: int, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
    """Return the array of host memory that begins at `address`.

    As with TensorRT, the caller must give a valid one.

    Args:
        address: Of the first byte.
        shape, dtype: Of the array.
    Raises:
        CalibrationError: The address is 0.
    """
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not address:
        raise CalibrationError("address", "0", "the address of host memory", "pass array.ctypes.data")
    buffer = memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B")
    array: NDArray = np.frombuffer(buffer, np.uint8).view(dtype).reshape(shape)
    return array


def is_address(memory: Any) -> bool:
    """Return whether `memory` is an address, or another library's object that stands for one, and no
    array.
    """
    return hasattr(memory, "__int__") and not hasattr(memory, "__dlpack__")


class Weights:
    """A constant array as TensorRT's calls take it; ``Weights()`` is none at all.

    Args:
        array: The values; or a `DataType`, for an array of this type.
        ptr, count: With a `DataType`: where its values lie, and how many there are.
    """

    def __init__(
        self, array: ArrayLike | DataType = DataType.FLOAT, ptr: int | None = None, count: int = 0
    ) -> None:
        if not isinstance(array, DataType):
            self._array = np.asarray(array)
        elif ptr:
            raw = (ctypes.c_uint8 * array.bytes_of(count)).from_address(int(ptr))
            raw_bytes: NDArray = np.frombuffer(memoryview(raw), np.uint8)
            self._array = unpack(raw_bytes, array, count)
        else:
            self._array = np.empty(0, array.numpy)

    def numpy(self) -> NDArray:
        """Return the values."""
        return self._array

    @property
    def size(self) -> int:
        """Number of values."""
        return int(self._array.size)

    @property
    def nbytes(self) -> int:
        """Number of bytes; values of 4 bits lie two in a byte."""
        return self.dtype.bytes_of(self.size)

    @property
    def dtype(self) -> DataType:
        """Element type."""
        return dtype_of(self._array.dtype.name)

    def __len__(self) -> int:
        return self.size


def unpack(raw_bytes: NDArray[np.uint8], dtype: DataType, count: int) -> NDArray:
    """Return the values in bytes; of types of 4 bits, the lower half of a byte is the first of its two.

    What is unpacked has a byte for each value, else it is a view.
    """
    if dtype.bits >= 8:
        view: NDArray = raw_bytes.view(dtype.numpy)
        return view
    nibbles = np.stack([raw_bytes & 15, raw_bytes >> 4], 1).reshape(-1)[:count]
    values: NDArray = nibbles.view(dtype.numpy)
    return values


def pack(values: NDArray, dtype: DataType) -> NDArray[np.uint8]:
    """Return the bytes of dense values of `dtype`, as `unpack` reads them."""
    flat: NDArray[np.uint8] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    if dtype.bits >= 8:
        return flat
    nibbles = np.append(flat & 15, np.zeros(flat.size % 2, np.uint8)).reshape(-1, 2)
    packed: NDArray[np.uint8] = nibbles[:, 0] | nibbles[:, 1] << 4
    return packed


def array_of(weights: object) -> NDArray | None:
    """Return the array that a call was given as weights; None for none."""
    if weights is None:
        return None
    array = weights.numpy() if isinstance(weights, Weights) else np.asarray(weights)
    return array if array.size else None


class OwningNetwork(Protocol):
    """The part of a network that its tensors and layers use."""

    _choice: DialectChoice

    @property
    def dialect(self) -> Dialect: ...

    @property
    def logger(self) -> ILogger: ...
    @property
    def outputs(self) -> tuple[ITensor, ...]: ...
    @property
    def has_implicit_batch_dimension(self) -> bool: ...
    def get_flag(self, flag: Any) -> bool: ...
    def shape_of(self, tensor: ITensor) -> Sizes: ...
    def dtype_of(self, tensor: ITensor) -> DataType: ...
    def dtype_after_inference(self, tensor: ITensor) -> DataType | None: ...
    def constant_sizes(self, tensor: ITensor) -> Sizes | None: ...
    def rename(self, tensor: ITensor, name: str) -> None: ...
    def name_for(self, title: str) -> str: ...
    def free_name(self, wanted: str) -> str: ...
    def touch(self) -> None: ...
    def complain(self, message: str, result: Result) -> Result: ...
    def warn(self, message: str) -> None: ...


class ITensor(Interface):
    """A tensor of a network: made by ``add_input`` or by a layer.

    Attributes:
        location: Accepted and kept; everything is host memory.
        allowed_formats: Accepted and kept.
        broadcast_across_batch: False, but for inputs of networks without a batch of their own.
    """

    location = TensorLocation.DEVICE
    allowed_formats = 0
    broadcast_across_batch = property(lambda self: False)

    def __init__(
        self, network: OwningNetwork, name: str, *, producer: object | None = None,
        dtype: DataType | None = None, shape: Sizes | None = None,
    ) -> None:  # fmt: skip
        self._network, self._name, self._producer = network, name, producer
        self._dtype, self._shape = dtype, shape
        self._inner_dtype: DataType | None = None
        self._known_type: str | None = None
        self._declared_shape: tuple[int | str | None, ...] | None = None
        self._range: tuple[float, float] | None = None
        self._axes: dict[int, str] = {}
        self._logger = network.logger

    @property
    def _choice(self) -> DialectChoice:  # type: ignore[override]
        return self._network._choice

    @property
    def name(self) -> str:
        """Its name, which outputs of the engine keep."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._network.rename(self, name)

    @property
    def shape(self) -> Sizes:
        """Sizes; -1 where only a run fixes them."""
        if self._shape is not None:
            return self._shape
        return self._network.shape_of(self)

    @shape.setter
    def shape(self, shape: Sizes) -> None:
        if not self.is_network_input:
            raise QuantValueError(
                f"tensor '{self.name}'", "a shape", "a shape for inputs of the network alone",
                "shapes of other tensors follow from their layers",
            )  # fmt: skip
        self._shape = plain(tuple(shape))
        self._network.touch()

    @property
    def dtype(self) -> DataType:
        """Element type."""
        return self._dtype if self._dtype is not None else self._network.dtype_of(self)

    @dtype.setter
    def dtype(self, dtype: DataType) -> None:
        if self._network.dialect == "11.x":
            raise RemovedMemberError(
                "property of 'ITensor' object has no setter", "a type set for a tensor",
                "nothing: in TensorRT 11 types follow from inputs, constants and Cast layers",
                "add a Cast layer, or choose the older rules: trt.set_dialect('10.x')",
            )  # fmt: skip
        self._dtype = DataType(dtype)
        self._network.touch()

    def reset_dtype(self) -> None:
        """Let the type follow from the layer again."""
        self._dtype = None
        self._network.touch()

    @property
    def is_network_input(self) -> bool:
        """Return whether the tensor is an input of the network."""
        return self._producer is None

    @property
    def is_network_output(self) -> bool:
        """Return whether the tensor is an output of the network."""
        return self in self._network.outputs

    @property
    def is_shape_tensor(self) -> bool:
        """Return whether the tensor holds sizes; here any tensor may."""
        return False

    @property
    def is_execution_tensor(self) -> bool:
        """Return whether the tensor holds data."""
        return True

    def set_dynamic_range(self, min: float, max: float) -> bool:
        """Fix the range for implicit quantization: the larger magnitude counts, and no calibrator changes it.

        Returns:
            False, with an error in the log, where the bounds are not finite or `min` exceeds `max`.
        """
        if not (np.isfinite(min) and np.isfinite(max) and min <= max):
            return self._network.complain(
                f"ITensor::setDynamicRange: tensor '{self.name}': [{min}, {max}] is no range", False
            )
        self._range = float(min), float(max)
        self._network.touch()
        return True

    @property
    def dynamic_range(self) -> tuple[float, float] | None:
        """Return the range set by `set_dynamic_range`; None where none was set."""
        return self._range

    @dynamic_range.setter
    def dynamic_range(self, range: tuple[float, float]) -> None:
        low, high = range
        if not self.set_dynamic_range(low, high):
            raise QuantValueError(
                f"tensor '{self.name}'", f"the range {range}", "two finite bounds, the lower one first",
                "correct it",
            )  # fmt: skip

    def set_dimension_name(self, index: int, name: str) -> None:
        """Name axis `index` of an input: axes of one name have one size."""
        self._axes[int(index)] = name
        self._network.touch()

    def get_dimension_name(self, index: int) -> str | None:
        """Return the name of axis `index`; None where it has none."""
        return self._axes.get(int(index))

    def reset_dynamic_range(self) -> None:
        """Forget `set_dynamic_range`."""
        self._range = None
        self._network.touch()

    def __repr__(self) -> str:
        return f"ITensor({self.name!r}, {self.dtype.name}, {self.shape})"


hide_removed(ITensor)
