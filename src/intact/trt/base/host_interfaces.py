"""What scripts subclass to give memory or take bytes; a CPU needs none of the memory."""

from __future__ import annotations

from typing import Any


class IGpuAllocator:
    """What a script subclasses: accepted, and not asked, as memory is the host's."""

    def allocate(self, size: int, alignment: int, flags: int) -> int:
        """The address of memory."""
        raise NotImplementedError(f"{type(self).__name__} must define allocate")


class IGpuAsyncAllocator(IGpuAllocator):
    """The same with streams."""


class IStreamReader:
    """What a script subclasses: ``read(size)`` gives the bytes of an engine."""

    def read(self, size: int) -> bytes:
        """The next bytes."""
        raise NotImplementedError(f"{type(self).__name__} must define read(size)")


class IStreamReaderV2(IStreamReader):
    """The same with ``read(size, stream)`` and ``seek``."""


class IStreamWriter:
    """What a script subclasses: ``write(data)`` takes the bytes of an engine."""

    def write(self, data: Any) -> int:
        """Take bytes; how many."""
        raise NotImplementedError(f"{type(self).__name__} must define write(data)")


class IAlgorithmSelector:
    """What a script subclasses: accepted, and not asked, as kernels are not chosen so."""


class IAlgorithmContext:
    """What an algorithm selector would be told of a layer; none is made."""


class IAlgorithm:
    """What an algorithm selector would choose; none is made."""


class IAlgorithmVariant:
    """Part of an `IAlgorithm`; none is made."""


class IAlgorithmIOInfo:
    """Part of an `IAlgorithm`; none is made."""
