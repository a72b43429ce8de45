"""Interfaces that scripts subclass or are given: memory, streams, progress, profiles and the logger."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, Self

from intact.terminal import printable
from intact.trt.base.enums import DataType, SeekPosition, TrtEnum


def define(instance: object, method: str) -> NotImplementedError:
    """Build the error for a method of an interface that a subclass has to define."""
    return NotImplementedError(f"{type(instance).__name__} must define {method}")


class IGpuAllocator:
    """Allocator interface: accepted, and never called, as memory is the host's."""

    def allocate(self, size: int, alignment: int, flags: int) -> int:
        """Return the address of memory."""
        raise define(self, "allocate")

    def reallocate(self, address: int, alignment: int, new_size: int) -> int:
        """Return the address of memory of another size, with the same content."""
        raise define(self, "reallocate")

    def deallocate(self, memory: int) -> bool:
        """Free memory."""
        raise define(self, "deallocate")

    def allocate_async(self, size: int, alignment: int, flags: int, stream: int) -> int:
        """Return the address of memory for a stream."""
        raise define(self, "allocate_async")

    def deallocate_async(self, memory: int, stream: int) -> bool:
        """Free memory for a stream."""
        raise define(self, "deallocate_async")


class IGpuAsyncAllocator(IGpuAllocator):
    """The same with streams."""


class IStreamReader:
    """Reader interface: ``read(size)`` gives the bytes of an engine."""

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        raise define(self, "read(size)")


class IStreamReaderV2(IStreamReader):
    """The same with ``read(size, stream)`` and ``seek``."""

    def seek(self, offset: int, where: SeekPosition) -> bool:
        """Go to a place of the engine; engines are read from the first byte to the last here."""
        raise define(self, "seek")


class IStreamWriter:
    """Writer interface: ``write(data)`` takes the bytes of an engine."""

    def write(self, data: Any) -> int:
        """Take bytes; how many."""
        raise define(self, "write(data)")


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


class IProgressMonitor:
    """Progress interface: a subclass defines ``phase_start``, ``step_complete`` and ``phase_finish``."""

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """Begin a phase of `num_steps` steps."""

    def step_complete(self, phase_name: str, step: int) -> bool:
        """Note that a step is done; return False to stop the build."""
        return True

    def phase_finish(self, phase_name: str) -> None:
        """End a phase."""


@contextmanager
def phases(monitor: Any) -> Iterator[Callable[[], bool]]:
    """Report a build phase to `monitor` (or nobody); inside, a call returns whether it was stopped."""
    name = "Building Engine"
    if monitor is None:
        yield lambda: False
        return
    monitor.phase_start(name, None, 1)
    try:
        yield lambda: monitor.step_complete(name, 0) is False
    finally:
        monitor.phase_finish(name)


class IProfiler:
    """Profiler interface: a subclass defines ``report_layer_time(layer_name, ms)``."""

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Take the time of one layer of one run."""
        raise define(self, "report_layer_time(layer_name, ms)")


class Profiler(IProfiler):
    """Prints one line for each layer."""

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Print the time."""
        print(f"{printable(layer_name)}: {ms:.4f}ms")


class IHostMemory(bytes):
    """Serialized bytes, with TensorRT's ``nbytes``."""

    dtype = property(lambda self: DataType.INT8)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return len(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class LogSeverity(TrtEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class ILogger:
    """Logger interface: a subclass defines ``log(severity, msg)``."""

    Severity: ClassVar[type[LogSeverity]] = LogSeverity
    INTERNAL_ERROR: ClassVar[LogSeverity] = LogSeverity.INTERNAL_ERROR
    ERROR: ClassVar[LogSeverity] = LogSeverity.ERROR
    WARNING: ClassVar[LogSeverity] = LogSeverity.WARNING
    INFO: ClassVar[LogSeverity] = LogSeverity.INFO
    VERBOSE: ClassVar[LogSeverity] = LogSeverity.VERBOSE

    def log(self, severity: LogSeverity, msg: str) -> None:
        """Take a message."""
        raise define(self, "log(severity, msg)")


class Logger(ILogger):
    """Prints what is at least as severe as `min_severity` to standard error.

    Example:
        >>> Logger(Logger.ERROR).min_severity.name
        'ERROR'
    """

    min_severity: LogSeverity = LogSeverity.WARNING

    def __init__(self, min_severity: LogSeverity = LogSeverity.WARNING) -> None:
        self.min_severity = LogSeverity(min_severity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def log(self, severity: LogSeverity, msg: str) -> None:
        """Print one line, as TensorRT does: time, "TRT", the severity's letter, the message."""
        if severity <= self.min_severity:
            now = datetime.now().strftime("%m/%d/%Y-%H:%M:%S")
            letter = {0: "F", 1: "E", 2: "W", 3: "I", 4: "V"}[int(severity)]
            print(f"[{now}] [TRT] [{letter}] {printable(msg)}", file=sys.stderr)
