"""Allocate, copy and fill host memory by address; number streams and events, and time them."""

from __future__ import annotations

import ctypes
from itertools import count
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError

_blocks: dict[int, NDArray[np.uint8]] = {}
_handles = count(1)
_times: dict[int, float] = {}
ALIGNMENT = 256


def allocate(size: int) -> int:
    """Return the address of `size` zeroed bytes, aligned as CUDA's are; `free` gives them back."""
    block = np.zeros(int(size) + ALIGNMENT, np.uint8)
    address = -(-block.ctypes.data // ALIGNMENT) * ALIGNMENT
    _blocks[address] = block
    return address


def free(address: Any) -> bool:
    """Give memory back; False for an address that `allocate` did not give (or 0)."""
    return not int(address) or _blocks.pop(int(address), None) is not None


def bytes_in_use() -> int:
    """Return how many bytes have been allocated and not freed."""
    return sum(block.nbytes for block in _blocks.values())


def copy(target: Any, source: Any, size: int) -> None:
    """Copy bytes between addresses (or things that have one).

    Raises:
        QuantValueError: An address is 0.
    """
    if not size:
        return
    to, of = address_of(target), address_of(source)
    if not to or not of:
        raise QuantValueError("a copy", f"from {of} to {to}", "addresses of memory", "allocate it first")
    ctypes.memmove(to, of, int(size))


def fill(target: Any, value: int, size: int) -> None:
    """Set bytes."""
    ctypes.memset(address_of(target), int(value), int(size))


def address_of(thing: Any) -> int:
    """Return an integer as an address, or the address at which an array or a buffer begins."""
    if isinstance(thing, np.ndarray):
        return int(thing.ctypes.data)
    if isinstance(thing, (bytes, bytearray, memoryview)):
        return int(np.frombuffer(thing, np.uint8).ctypes.data)
    return int(thing)


def handle() -> int:
    """Return a new number for a stream, an event or a context."""
    return next(_handles)


def mark(event: Any) -> None:
    """Remember when an event was recorded."""
    _times[int(event)] = perf_counter()


def milliseconds_between(start: Any, end: Any) -> float:
    """Return the milliseconds between two events."""
    return 1e3 * (_times[int(end)] - _times[int(start)])
