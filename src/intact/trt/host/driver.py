"""``cuda.cuda`` and ``cuda.bindings.driver`` on host memory: every call gives (error, results...)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from intact.trt.host import memory


class CUresult(IntEnum):
    """The driver's errors, as far as they occur."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1


OK = CUresult.CUDA_SUCCESS


def cuMemAlloc(size: int) -> tuple[CUresult, int]:
    """Allocate host memory."""
    return OK, memory.allocate(size)


def cuMemAllocAsync(size: int, stream: Any) -> tuple[CUresult, int]:
    """Allocate host memory."""
    return cuMemAlloc(size)


def cuMemHostAlloc(size: int, flags: int = 0) -> tuple[CUresult, int]:
    """Allocate host memory."""
    return cuMemAlloc(size)


cuMemAllocHost = cuMemAlloc
cuMemAllocManaged = cuMemHostAlloc


def cuMemFree(address: Any) -> tuple[CUresult]:
    """Give memory back."""
    return (OK if memory.free(address) else CUresult.CUDA_ERROR_INVALID_VALUE,)


def cuMemFreeAsync(address: Any, stream: Any) -> tuple[CUresult]:
    """Give memory back."""
    return cuMemFree(address)


cuMemFreeHost = cuMemFree


def cuMemsetD8(address: Any, value: int, size: int) -> tuple[CUresult]:
    """Set bytes."""
    memory.fill(address, value, size)
    return (OK,)


def cuMemsetD8Async(address: Any, value: int, size: int, stream: Any) -> tuple[CUresult]:
    """Set bytes, at once."""
    return cuMemsetD8(address, value, size)


def cuMemcpyHtoD(dst: Any, src: Any, size: int) -> tuple[CUresult]:
    """Copy."""
    memory.copy(dst, src, size)
    return (OK,)


def cuMemcpyHtoDAsync(dst: Any, src: Any, size: int, stream: Any = 0) -> tuple[CUresult]:
    """Copy, at once."""
    return cuMemcpyHtoD(dst, src, size)


cuMemcpyDtoH = cuMemcpyDtoD = cuMemcpy = cuMemcpyHtoD
cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = cuMemcpyHtoDAsync


def _do_nothing(*_: Any) -> tuple[CUresult]:
    """Return success: every call has finished its work when it returns, so there is nothing to wait for."""
    return (OK,)


cuInit = cuCtxSynchronize = cuCtxDestroy = cuStreamSynchronize = cuStreamDestroy = _do_nothing
cuEventDestroy = cuEventSynchronize = cuStreamWaitEvent = cuEventQuery = cuStreamQuery = _do_nothing
cuCtxPushCurrent = cuCtxSetCurrent = cuDevicePrimaryCtxRelease = _do_nothing


def _new_handle(*_: Any) -> tuple[CUresult, int]:
    """Return success and a new number, which stands for an event, a stream or a context."""
    return OK, memory.handle()


cuEventCreate = cuCtxCreate = cuStreamCreate = cuDevicePrimaryCtxRetain = cuCtxPopCurrent = _new_handle


def cuDeviceGet(index: int) -> tuple[CUresult, int]:
    """Return the device with a number."""
    return OK, int(index)


def cuDeviceGetCount() -> tuple[CUresult, int]:
    """Return the number of devices, 1."""
    return OK, 1


def cuDeviceGetName(size: int, device: Any) -> tuple[CUresult, bytes]:
    """Return the device's name: the CPU's."""
    return OK, b"CPU (INTact)"[:size]


def cuEventRecord(event: Any, stream: Any = 0) -> tuple[CUresult]:
    """Remember the time."""
    memory.mark(event)
    return (OK,)


def cuEventElapsedTime(start: Any, end: Any) -> tuple[CUresult, float]:
    """Return the milliseconds between two events."""
    return OK, memory.milliseconds_between(start, end)


def cuGetErrorString(error: Any) -> tuple[CUresult, bytes]:
    """Describe an error in words."""
    return OK, CUresult(error).name.encode()


def cuGetErrorName(error: Any) -> tuple[CUresult, bytes]:
    """Return the name of an error."""
    return OK, CUresult(error).name.encode()
