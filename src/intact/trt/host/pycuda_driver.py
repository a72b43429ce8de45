"""``pycuda.driver`` on host memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import IntactError
from intact.trt.host import memory


class Error(IntactError):
    """PyCUDA's root of errors."""


class DeviceAllocation:
    """Memory that ends with the object; ``int()`` gives its address."""

    def __init__(self, size: int) -> None:
        self._size, self._address = int(size), memory.allocate(size)

    def __int__(self) -> int:
        return self._address

    __index__ = __int__

    def free(self) -> None:
        """Give it back."""
        if self._address:
            memory.free(self._address)
        self._address = 0

    def as_buffer(self, size: int, offset: int = 0) -> memoryview:
        """Return its bytes."""
        from intact.trt.base.itensor import at_address

        return at_address(self._address + offset, (size,), np.dtype(np.uint8)).data

    def __del__(self) -> None:
        self.free()


class Stream:
    """A stream: every call returns when it is done."""

    def __init__(self, flags: int = 0) -> None:
        self.handle = memory.handle()

    def synchronize(self) -> None:
        """Do nothing: there is nothing to wait for."""

    def is_done(self) -> bool:
        """Return True."""
        return True

    def wait_for_event(self, event: Event) -> None:
        """Do nothing: there is nothing to wait for."""


class Event:
    """A time."""

    def __init__(self, flags: int = 0) -> None:
        self.handle = memory.handle()

    def record(self, stream: Stream | None = None) -> Event:
        """Remember the time."""
        memory.mark(self.handle)
        return self

    def synchronize(self) -> Event:
        """Do nothing: there is nothing to wait for."""
        return self

    def query(self) -> bool:
        """Return True."""
        return True

    def time_since(self, event: Event) -> float:
        """Return the milliseconds since another event."""
        return memory.milliseconds_between(event.handle, self.handle)

    def time_till(self, event: Event) -> float:
        """Return the milliseconds until another event."""
        return memory.milliseconds_between(self.handle, event.handle)


class PycudaContext:
    """The one context."""

    def push(self) -> None:
        """Do nothing: there is one context."""

    detach = push

    @staticmethod
    def pop() -> None:
        """Do nothing: there is one context."""

    @staticmethod
    def synchronize() -> None:
        """Do nothing: there is nothing to wait for."""

    @staticmethod
    def get_device() -> Device:
        """Return the device, which is the CPU."""
        return Device(0)


Context = PycudaContext


class Device:
    """The CPU."""

    def __init__(self, index: int = 0) -> None:
        self.index = index

    @staticmethod
    def count() -> int:
        """Return the number of devices, 1."""
        return 1

    def name(self) -> str:
        """Return the device's name."""
        return "CPU (INTact)"

    def make_context(self, flags: int = 0) -> PycudaContext:
        """Return the one context."""
        return PycudaContext()

    retain_primary_context = make_context

    def compute_capability(self) -> tuple[int, int]:
        """Return (0, 0): there is no compute capability."""
        return 0, 0

    def total_memory(self) -> int:
        """Return the memory in bytes: a terabyte."""
        return 1 << 40


class _Flags:
    SCHED_AUTO = SCHED_BLOCKING_SYNC = MAP_HOST = DEFAULT = DISABLE_TIMING = BLOCKING_SYNC = PORTABLE = 0
    DEVICEMAP = WRITECOMBINED = NON_BLOCKING = 0


ctx_flags = event_flags = host_alloc_flags = stream_flags = _Flags


def init(flags: int = 0) -> None:
    """Do nothing: there is nothing to initialize."""


def mem_alloc(size: int) -> DeviceAllocation:
    """Allocate host memory."""
    return DeviceAllocation(size)


def to_device(array: Any) -> DeviceAllocation:
    """Copy an array to newly allocated memory."""
    dense = np.ascontiguousarray(array)
    target = DeviceAllocation(dense.nbytes)
    memory.copy(target, dense, dense.nbytes)
    return target


def from_device(address: Any, shape: Any, dtype: Any) -> NDArray:
    """Copy an array of `shape` and `dtype` out of memory."""
    array = np.empty(shape, dtype)
    memory.copy(array, address, array.nbytes)
    return array


def pagelocked_empty(shape: Any, dtype: Any, *_: Any, **__: Any) -> NDArray:
    """Return an ordinary array: nothing needs pinned memory here."""
    return np.empty(shape, dtype)


def pagelocked_zeros(shape: Any, dtype: Any, *_: Any, **__: Any) -> NDArray:
    """Return an ordinary array of zeros."""
    return np.zeros(shape, dtype)


def register_host_memory(array: NDArray, flags: int = 0) -> NDArray:
    """Return the array itself: nothing needs to be registered."""
    return array


def memcpy_htod(dest: Any, src: Any) -> None:
    """Copy an array into memory."""
    dense = np.ascontiguousarray(src)
    memory.copy(dest, dense, dense.nbytes)


def memcpy_htod_async(dest: Any, src: Any, stream: Stream | None = None) -> None:
    """Copy an array into memory, at once."""
    memcpy_htod(dest, src)


def memcpy_dtoh(dest: NDArray, src: Any) -> None:
    """Copy memory into an array."""
    memory.copy(dest, src, dest.nbytes)


def memcpy_dtoh_async(dest: NDArray, src: Any, stream: Stream | None = None) -> None:
    """Copy memory into an array, at once."""
    memcpy_dtoh(dest, src)


def memcpy_dtod(dest: Any, src: Any, size: int) -> None:
    """Copy memory."""
    memory.copy(dest, src, size)


def memcpy_dtod_async(dest: Any, src: Any, size: int, stream: Stream | None = None) -> None:
    """Copy memory, at once."""
    memory.copy(dest, src, size)


def memset_d8(dest: Any, value: int, count: int) -> None:
    """Set bytes."""
    memory.fill(dest, value, count)


def mem_get_info() -> tuple[int, int]:
    """Return free and total memory: a terabyte, less what was allocated, as scripts look at differences."""
    return (1 << 40) - memory.bytes_in_use(), 1 << 40
