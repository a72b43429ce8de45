"""Stores the measurements of tuning runs in a file, so that interrupted runs continue from it.

    {"version": 2, "latencies": {MACHINE: {STRUCTURE: seconds}}, "studies": {STUDY: {NAME: figures}},
     "sha256": ...}

The digest is that of the other entries (`checksums.seal`). Version 1 had none, and is read.

Latencies are kept by machine and structure, and serve other weights of the same network. All else is kept by
study: a digest of the model, of the data that calibration keeps, and of the settings.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from intact.atomic import replacing
from intact.checksums import is_sealed, seal
from intact.errors import FileFormatError, require_path
from intact.limits import RECORD_BYTES
from intact.reading import read_bytes
from intact.timings import Timings, check_table

VERSION = 2
_WITHOUT_DIGEST = 1


class TuneRecord:
    """Holds the measurements of tuning runs.

    Args:
        path: The file, read if it is there, and written after each new figure; None: nothing is kept.
    Raises:
        FileFormatError: The file is no such record.
        FileAccessError: It cannot be read or written.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = path
        self._studies: dict[str, dict[str, Any]] = {}
        self._latencies = Timings()
        if path is not None:
            require_path(path)
        if path is not None and Path(path).exists():
            self._latencies, self._studies = _read_record(path)

    def latencies(self, machine: str) -> dict[str, float]:
        """Return the seconds by structure of one machine; entries that are added get saved."""
        return self._latencies.of(machine) if machine else {}

    def study(self, key: str) -> Study:
        """Return the figures of one model on some data."""
        return Study(self._studies.setdefault(key, {}), self.save)

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self._path is not None:
            content = {"version": VERSION, "latencies": self._latencies.machines, "studies": self._studies}
            text = json.dumps(seal(content), indent=1, sort_keys=True, allow_nan=False) + "\n"
            with replacing(self._path) as file:
                file.write(text.encode())


def key_of(measure: object) -> str:
    """Return the key that identifies a clock or a metric; "" where it has none, and nothing is stored."""
    return str(getattr(measure, "key", ""))


class Study:
    """Holds figures by name, and measures missing ones.

    Args:
        known: Filled in.
        save: Called behind each new figure.
    """

    def __init__(self, figures: dict[str, Any], save: Callable[[], None]) -> None:
        self._figures, self._save = figures, save

    def knows(self, name: str) -> bool:
        """Return whether there are figures under `name`."""
        return name in self._figures

    def numbers(self, name: str, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the figures under `name`, measured by `measure` where they are missing."""
        if name not in self._figures:
            self._figures[name] = measure()
            self._save()
        return dict(self._figures[name])


def _read_record(path: str | os.PathLike[str]) -> tuple[Timings, dict[str, dict[str, Any]]]:
    where = f"file '{os.fspath(path)}'"
    text = read_bytes(path)
    RECORD_BYTES.check(len(text), where)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    version = content.get("version") if isinstance(content, dict) else None
    is_whole = version == _WITHOUT_DIGEST or (version == VERSION and is_sealed(content))
    if not is_whole or not _sound(content.get("studies")):
        damaged = version == VERSION and not is_whole
        raise FileFormatError(
            where, "content that does not match its checksum" if damaged else "something else",
            f"a record of `intact tune`, version {VERSION}",
            "name another file, or remove this one",
        )  # fmt: skip
    return Timings(check_table(content.get("latencies"), where)), content["studies"]


def _sound(studies: Any) -> bool:
    if not isinstance(studies, dict) or not all(isinstance(study, dict) for study in studies.values()):
        return False
    tables = [figures for study in studies.values() for figures in study.values()]
    return all(
        isinstance(table, dict)
        and all(isinstance(n, int | float) and not isinstance(n, bool) for n in table.values())
        for table in tables
    )
