"""`Timings`, a file of measured seconds by machine and by the name of what was timed.

    {"format": "intact-timings", "version": 2, "machines": {MACHINE: {NAME: seconds}}, "sha256": ...}

The digest is that of the other entries (`checksums.seal`). Version 1 had none, and is read.

One record for all that is measured once and remembered: the forms of a layer among which an engine chooses,
the structures of a model that `intact tune` compares, what TensorRT's builder calls its timing cache. Figures
of other machines are kept, and never asked.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from intact.atomic import replacing
from intact.checksums import is_sealed, seal
from intact.errors import FileFormatError, require_path
from intact.limits import RECORD_BYTES
from intact.reading import read_bytes

FORMAT, VERSION = "intact-timings", 2
_WITHOUT_DIGEST = 1
Table = dict[str, dict[str, float]]
"""Seconds, by machine and name."""


class Timings:
    """Holds measured seconds by machine and name.

    Args:
        machines: Taken over.
    """

    def __init__(self, machines: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self.machines: Table = {machine: dict(table) for machine, table in (machines or {}).items()}

    def __bool__(self) -> bool:
        return any(self.machines.values())

    def of(self, machine: str) -> dict[str, float]:
        """Return the table of one machine, which the caller may fill."""
        return self.machines.setdefault(machine, {})

    def add(self, further: Timings) -> None:
        """Add the entries of `further` that this one lacks."""
        for machine, table in further.machines.items():
            self.machines[machine] = {**table, **self.machines.get(machine, {})}

    def serialize(self) -> bytes:
        """Return the bytes that `parse` reads; equal figures give equal bytes."""
        tables = {machine: table for machine, table in self.machines.items() if table}
        content = seal({"format": FORMAT, "version": VERSION, "machines": tables})
        return (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes, where: str = "timings") -> Timings:
        """Build timings from their bytes.

        Raises:
            FileFormatError: They are something else, or of another version; names `where`.
        """
        RECORD_BYTES.check(len(data), where)
        try:
            content = json.loads(bytes(data))
        except (ValueError, RecursionError):
            content = None
        if not (isinstance(content, dict) and content.get("format") == FORMAT):
            raise _format_error(where, "something else")
        version = content.get("version")
        if version not in (VERSION, _WITHOUT_DIGEST):
            raise _format_error(where, f"version {version!r:.20}")
        if version != _WITHOUT_DIGEST and not is_sealed(content):
            raise _format_error(where, "content that does not match its checksum")
        return cls(check_table(content.get("machines"), where))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file, whole or not at all."""
        with replacing(path) as file:
            file.write(self.serialize())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Timings:
        """Read a file; a missing file gives empty timings.

        Raises:
            FileFormatError: As for `parse`.
            FileAccessError: It cannot be read.
        """
        require_path(path)
        if not Path(path).exists():
            return cls()
        return cls.parse(read_bytes(path), f"file '{os.fspath(path)}'")


def check_table(machines: Any, where: str) -> Table:
    """Check a table that came out of JSON, and return it.

    Raises:
        FileFormatError: It is something else, or a time is no finite number of 0 or more.
    """
    if not isinstance(machines, dict) or not all(isinstance(table, dict) for table in machines.values()):
        raise _format_error(where, "no table of machines")
    for table in machines.values():
        for name, value in table.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
                raise _format_error(where, f"{value!r:.20} for '{name:.60}'")
    return {machine: {n: float(s) for n, s in table.items()} for machine, table in machines.items()}


def _format_error(where: str, got: str) -> FileFormatError:
    return FileFormatError(
        where, got, f"timings of version {VERSION}: finite numbers of seconds",
        "name another file, or leave this one out and measure again",
    )  # fmt: skip


@lru_cache
def processor() -> str:
    """Return the name of this machine's processor."""
    listed = Path("/proc/cpuinfo")
    if listed.is_file():
        for line in listed.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "CPU part"):
                return value.strip()
    return platform.processor() or platform.machine()
