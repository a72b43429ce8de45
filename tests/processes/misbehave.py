"""Functions for a limited process: they end it, or take more than they may."""

from __future__ import annotations

import os
import time

from intact.errors import QuantValueError


def add_one(x: int) -> int:
    """Behave."""
    print("what a library prints is no answer")
    return x + 1


def abort() -> None:
    """End as C++ and Rust do where they give up."""
    os.abort()


def sleep() -> None:
    """Take too long."""
    time.sleep(100)


def grow() -> int:
    """Take too much memory."""
    return len(bytearray(16 << 30))


def refuse() -> None:
    """Refuse as INTact does."""
    raise QuantValueError("grammar", "another", "one", "correct it")


def stumble() -> None:
    """Refuse as others do."""
    raise KeyError("name")
