"""Checksums of plan files by this machine's instructions are zlib's, and so are those by tables."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from tests.native.test_other_machines import ARM_COMPILER, ARM_EMULATOR, on_arm

ROOT = Path(__file__).parents[2]
COUNTS = [*range(300), 1000, 4096, 65000]


def pseudo_random_bytes(count: int) -> bytes:
    """The bytes that `crc32.cc` makes."""
    state, result = 1, bytearray()
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        result.append(state >> 24)
    return bytes(result)


def check(compiler: str, folder: Path, flags: list[str], runner: list[str]) -> None:
    """Compile the program, run it, and compare with zlib."""
    sources = [str(ROOT / "csrc/engine/crc32.cc"), str(ROOT / "tests/native/crc32.cc")]
    program = str(folder / "crc32")
    command = [compiler, "-std=c++20", "-O2", f"-I{ROOT / 'csrc'}", *flags, *sources, "-o", program]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    words = [*runner, program, *map(str, COUNTS)]
    printed = subprocess.run(words, capture_output=True, text=True, timeout=600).stdout.splitlines()
    data = pseudo_random_bytes(1 << 16)
    sums = [zlib.crc32(data[offset : offset + count]) for offset in range(3) for count in COUNTS]
    assert printed == [f"{crc} {crc}" for crc in sums]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler")
def test_checksums_are_those_of_zlib(tmp_path):
    check("g++", tmp_path, [], [])


@on_arm
@pytest.mark.parametrize("processor", ["max", "cortex-a53"])
def test_checksums_on_arm_are_those_of_zlib(processor, tmp_path):
    check(str(ARM_COMPILER), tmp_path, ["-static"], [str(ARM_EMULATOR), "-cpu", processor])
