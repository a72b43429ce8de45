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
    """Host memory."""
    return OK, memory.allocate(size)


def cuMemFree(address: Any) -> tuple[CUresult]:
    """Give memory back."""
    return (OK if memory.free(address) else CUresult.CUDA_ERROR_INVALID_VALUE,)


def cuMemcpyHtoD(dst: Any, src: Any, size: int) -> tuple[CUresult]:
    """Copy."""
    memory.copy(dst, src, size)
    return (OK,)


def cuMemcpyHtoDAsync(dst: Any, src: Any, size: int, stream: Any = 0) -> tuple[CUresult]:
    """Copy, at once."""
    return cuMemcpyHtoD(dst, src, size)


cuMemcpyDtoH = cuMemcpyDtoD = cuMemcpy = cuMemcpyHtoD
cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = cuMemcpyHtoDAsync


def _done(*_: Any) -> tuple[CUresult]:
    """Nothing to do."""
    return (OK,)


cuInit = cuCtxSynchronize = cuCtxDestroy = cuStreamSynchronize = cuStreamDestroy = _done
cuCtxPushCurrent = cuCtxSetCurrent = cuDevicePrimaryCtxRelease = _done


def _numbered(*_: Any) -> tuple[CUresult, int]:
    """A number."""
    return OK, memory.handle()


cuCtxCreate = cuStreamCreate = cuDevicePrimaryCtxRetain = cuCtxPopCurrent = _numbered


def cuDeviceGet(index: int) -> tuple[CUresult, int]:
    """The device, by its number."""
    return OK, int(index)


def cuDeviceGetCount() -> tuple[CUresult, int]:
    """One."""
    return OK, 1


def cuGetErrorName(error: Any) -> tuple[CUresult, bytes]:
    """The name of an error."""
    return OK, CUresult(error).name.encode()
