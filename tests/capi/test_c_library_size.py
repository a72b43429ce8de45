"""The size of the C library: what a program that ships it carries (docs/decisions/0052-c-library.md)."""

from __future__ import annotations

import os
import platform
import struct
import sys

import pytest

MOST_BYTES = 3_000_000
"""2.996 MB by GCC 12; the rest is for other compilers of its kind."""


def sum_loaded_bytes(data: bytes) -> int:
    """Sum the bytes that an ELF file of 64 bits has in segments that are loaded: its size without symbols."""
    assert data[:6] == b"\x7fELF\x02\x01", "a little-endian ELF file of 64 bits"
    offset, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    return sum(file_bytes for kind, _, _, _, _, file_bytes in headers if kind == 1)


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or "INTACT_LIBRARY" in os.environ,
    reason="the library of this build for x86-64 and Linux",
)
def test_library_of_all_instructions_is_small(c_library):
    data = c_library.read_bytes()
    if b"GCC: (" not in data or b"__asan_init" in data:
        pytest.skip("another compiler, or a build with sanitizers")
    assert sum_loaded_bytes(data) <= MOST_BYTES
