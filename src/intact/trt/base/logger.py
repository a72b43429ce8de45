"""TensorRT's logger, which scripts subclass or filter by severity."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import ClassVar, Self

from intact.terminal import printable
from intact.trt.base.enums import TrtEnum


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
        raise NotImplementedError(f"{type(self).__name__} must define log(severity, msg)")


class Logger(ILogger):
    """Prints what is at least as severe as `min_severity` to standard error.

    Example:
        >>> Logger(Logger.ERROR).min_severity.name
        'ERROR'
    """

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
