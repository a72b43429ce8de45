"""Messages between a program and the process that quantizes for it: a line of JSON, then bytes of arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

Batch = Mapping[str, NDArray[Any]]

_MOST_HEADER = 1 << 26


@dataclass(frozen=True)
class Message:
    """Holds values that JSON has, and batches of arrays.

    Attributes:
        values: By name.
        batches: Lists of dicts of arrays, by name.
    """

    values: Mapping[str, Any]
    batches: Mapping[str, Sequence[Batch]] = field(default_factory=dict)


def write_message(file: BinaryIO, message: Message) -> None:
    """Write a message, and flush.

    Raises:
        OSError: Nobody reads it.
    """
    arrays = [
        np.ascontiguousarray(array)
        for batches in message.batches.values() for batch in batches for array in batch.values()
    ]  # fmt: skip
    header = {
        "values": message.values,
        "batches": {
            name: [[[key, array.dtype.str, array.shape] for key, array in batch.items()] for batch in batches]
            for name, batches in message.batches.items()
        },
    }
    file.write(json.dumps(header).encode() + b"\n")
    for array in arrays:
        file.write(array.reshape(-1).view(np.uint8).data)
    file.flush()


def read_message(file: BinaryIO) -> Message | None:
    """Return the next message; None where there is none, or it is not whole."""
    line = file.readline(_MOST_HEADER)
    if not line.endswith(b"\n"):
        return None
    try:
        header = json.loads(line)
        return Message(
            header["values"],
            {
                name: [
                    {key: _read_array(file, dtype, shape) for key, dtype, shape in batch} for batch in batches
                ]
                for name, batches in header["batches"].items()
            },
        )
    except (ValueError, KeyError, TypeError, EOFError):
        return None


def _read_array(file: BinaryIO, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    array = np.empty(shape, np.dtype(dtype))
    left = memoryview(array.reshape(-1).view(np.uint8).data)
    while len(left):
        count = file.readinto(left)  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        left = left[count:]
    return array
