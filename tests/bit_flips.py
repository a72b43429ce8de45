"""Copies of a file's bytes in which one bit is flipped, spread over all of it."""

from __future__ import annotations

from collections.abc import Iterator


def bit_flips(data: bytes, count: int) -> Iterator[bytes]:
    """Yield about `count` copies; the stride is odd, so that every bit of a byte has its turn."""
    bits = 8 * len(data)
    for index in range(0, bits, max(bits // count, 1) | 1):
        yield data[: index // 8] + bytes([data[index // 8] ^ 1 << index % 8]) + data[index // 8 + 1 :]
