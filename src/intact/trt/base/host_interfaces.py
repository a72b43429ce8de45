"""Interfaces that scripts subclass to allocate memory or take bytes; a CPU needs none of the memory."""

from __future__ import annotations

from typing import Any


class IGpuAllocator:
    """Allocator interface: accepted, and never called, as memory is the host's."""

    def allocate(self, size: int, alignment: int, flags: int) -> int:
        """Return the address of memory."""
        raise NotImplementedError(f"{type(self).__name__} must define allocate")


class IGpuAsyncAllocator(IGpuAllocator):
    """The same with streams."""


class IStreamReader:
    """Reader interface: ``read(size)`` gives the bytes of an engine."""

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        raise NotImplementedError(f"{type(self).__name__} must define read(size)")


class IStreamReaderV2(IStreamReader):
    """The same with ``read(size, stream)`` and ``seek``."""


class IStreamWriter:
    """Writer interface: ``write(data)`` takes the bytes of an engine."""

    def write(self, data: Any) -> int:
        """Take bytes; how many."""
        raise NotImplementedError(f"{type(self).__name__} must define write(data)")


class IAlgorithmSelector:
    """Algorithm selector interface: accepted, and never called, as kernels are not chosen so."""


class IAlgorithmContext:
    """Context of a layer for an algorithm selector; none is made."""


class IAlgorithm:
    """Algorithm for an algorithm selector to choose; none is made."""


class IAlgorithmVariant:
    """Part of an `IAlgorithm`; none is made."""


class IAlgorithmIOInfo:
    """Part of an `IAlgorithm`; none is made."""
