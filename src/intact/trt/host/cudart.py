"""``cuda.cudart`` and ``cuda.bindings.runtime`` on host memory: every call gives (error, results...)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from intact.errors import IntactError
from intact.trt.host import memory


class cudaError_t(IntEnum):
    """CUDA's errors, as far as they occur."""

    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2


class cudaMemcpyKind(IntEnum):
    """Directions of copies between host and device; all memory is the host's."""

    cudaMemcpyHostToHost = 0
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class cudaDeviceAttr(IntEnum):
    """Attributes of a device that scripts query."""

    cudaDevAttrComputeCapabilityMajor = 75
    cudaDevAttrComputeCapabilityMinor = 76


OK = cudaError_t.cudaSuccess
cudaStreamNonBlocking = 1
cudaStream_t = int
cudaEvent_t = int


class cudaDeviceProp:
    """The one device: the CPU."""

    name = b"CPU (INTact)"
    major, minor, multiProcessorCount, totalGlobalMem = 0, 0, 1, 0


def cudaMalloc(size: int) -> tuple[cudaError_t, int]:
    """Allocate host memory."""
    return OK, memory.allocate(size)


def cudaMallocAsync(size: int, stream: Any) -> tuple[cudaError_t, int]:
    """Allocate host memory."""
    return cudaMalloc(size)


def cudaMallocHost(size: int) -> tuple[cudaError_t, int]:
    """Allocate host memory."""
    return cudaMalloc(size)


def cudaHostAlloc(size: int, flags: int = 0) -> tuple[cudaError_t, int]:
    """Allocate host memory."""
    return cudaMalloc(size)


def cudaMallocManaged(size: int, flags: int = 1) -> tuple[cudaError_t, int]:
    """Allocate host memory."""
    return cudaMalloc(size)


def cudaFree(address: Any) -> tuple[cudaError_t]:
    """Give memory back."""
    return (OK if memory.free(address or 0) else cudaError_t.cudaErrorInvalidValue,)


def cudaFreeHost(address: Any) -> tuple[cudaError_t]:
    """Give memory back."""
    return cudaFree(address)


def cudaFreeAsync(address: Any, stream: Any) -> tuple[cudaError_t]:
    """Give memory back."""
    return cudaFree(address)


def cudaMemcpy(dst: Any, src: Any, count: int, kind: Any = None) -> tuple[cudaError_t]:
    """Copy."""
    try:
        memory.copy(dst, src, count)
    except (IntactError, TypeError):
        return (cudaError_t.cudaErrorInvalidValue,)
    return (OK,)


def cudaMemcpyAsync(dst: Any, src: Any, count: int, kind: Any, stream: Any = 0) -> tuple[cudaError_t]:
    """Copy, at once."""
    return cudaMemcpy(dst, src, count, kind)


def cudaMemset(dst: Any, value: int, count: int) -> tuple[cudaError_t]:
    """Set bytes."""
    memory.fill(dst, value, count)
    return (OK,)


def cudaMemsetAsync(dst: Any, value: int, count: int, stream: Any = 0) -> tuple[cudaError_t]:
    """Set bytes, at once."""
    return cudaMemset(dst, value, count)


def cudaStreamCreate() -> tuple[cudaError_t, int]:
    """Return a stream, which is a number."""
    return OK, memory.handle()


def cudaStreamCreateWithFlags(flags: int) -> tuple[cudaError_t, int]:
    """Return a stream, which is a number."""
    return cudaStreamCreate()


def cudaStreamCreateWithPriority(flags: int, priority: int) -> tuple[cudaError_t, int]:
    """Return a stream, which is a number."""
    return cudaStreamCreate()


def cudaEventCreate() -> tuple[cudaError_t, int]:
    """Return an event, which is a number."""
    return OK, memory.handle()


def cudaEventCreateWithFlags(flags: int) -> tuple[cudaError_t, int]:
    """Return an event, which is a number."""
    return cudaEventCreate()


def cudaEventRecord(event: Any, stream: Any = 0) -> tuple[cudaError_t]:
    """Remember the time."""
    memory.mark(event)
    return (OK,)


def cudaEventElapsedTime(start: Any, end: Any) -> tuple[cudaError_t, float]:
    """Return the milliseconds between two events."""
    return OK, memory.milliseconds_between(start, end)


def _do_nothing(*_: Any) -> tuple[cudaError_t]:
    """Return success: every call has finished its work when it returns, so there is nothing to wait for."""
    return (OK,)


cudaStreamSynchronize = cudaStreamDestroy = cudaStreamWaitEvent = cudaStreamQuery = _do_nothing
cudaEventSynchronize = cudaEventDestroy = cudaEventQuery = _do_nothing
cudaDeviceSynchronize = cudaDeviceReset = cudaSetDevice = cudaHostRegister = cudaHostUnregister = _do_nothing


def cudaGetDevice() -> tuple[cudaError_t, int]:
    """Return device 0."""
    return OK, 0


def cudaGetDeviceCount() -> tuple[cudaError_t, int]:
    """Return the number of devices, 1."""
    return OK, 1


def cudaGetDeviceProperties(device: int) -> tuple[cudaError_t, cudaDeviceProp]:
    """Return the properties of the CPU."""
    return OK, cudaDeviceProp()


def cudaDeviceGetAttribute(attribute: Any, device: int) -> tuple[cudaError_t, int]:
    """Return 0: there is no compute capability."""
    return OK, 0


def cudaMemGetInfo() -> tuple[cudaError_t, int, int]:
    """Return free and total memory: a terabyte, less what was allocated, as scripts look at differences."""
    total = 1 << 40
    return OK, total - memory.bytes_in_use(), total


def cudaGetErrorName(error: Any) -> tuple[cudaError_t, bytes]:
    """Return the name of an error."""
    return OK, cudaError_t(error).name.encode()


def cudaGetErrorString(error: Any) -> tuple[cudaError_t, bytes]:
    """Return the name of an error."""
    return cudaGetErrorName(error)


def cudaGetLastError() -> tuple[cudaError_t]:
    """Return no error."""
    return (OK,)


def cudaDriverGetVersion() -> tuple[cudaError_t, int]:
    """Return 0: there is no driver."""
    return OK, 0


def cudaRuntimeGetVersion() -> tuple[cudaError_t, int]:
    """Return 0: there is no runtime."""
    return OK, 0


def cudaHostGetDevicePointer(address: Any, flags: int = 0) -> tuple[cudaError_t, int]:
    """Return the host's address, which is the device's as well."""
    return OK, memory.address_of(address)
