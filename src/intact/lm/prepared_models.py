"""Models as they were packed when they were first opened, in a folder that processes share.

To choose and pack codes takes seconds, to map what is packed takes milliseconds. So `load_model` keeps what
it made of a file in the user's cache folder, under a key of all that decides the result: the files with the
times of their last change, the options, this machine, and this build of INTact. INTACT_LM_CACHE names another
folder, or is "off"; INTACT_LM_CACHE_BYTES bounds it. Whatever the system refuses is taken for an empty cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from intact import kernels
from intact._version import __version__
from intact.errors import IntactError, QuantValueError
from intact.lm.language_model import LanguageModel
from intact.lm.saved_folder import SETTINGS, load_saved, save_model, saved_description
from intact.processes import user_cache

VARIABLE, BOUND, OFF = "INTACT_LM_CACHE", "INTACT_LM_CACHE_BYTES", "off"
USUAL_BOUND = 8 << 30
_MOST_FILES = 1000
_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
_UNFINISHED = ".new"


@dataclass(frozen=True)
class PreparedModel:
    """A place for what is made of one model with given options.

    Attributes:
        folder: Where it is, or will be: named by the key.
        most_bytes: Bound of all such folders; those that were used longest ago go first.
    """

    folder: Path
    most_bytes: int

    @classmethod
    def of(cls, path: Path, options: Mapping[str, Any]) -> PreparedModel | None:
        """Return the place for a model; None where nothing is kept of it.

        Args:
            path: The file or folder.
            options: All that decides what is made of it.
        Raises:
            QuantValueError: INTACT_LM_CACHE_BYTES is no number of bytes.
        """
        named = os.environ.get(VARIABLE, "")
        if named.lower() == OFF:
            return None
        most_bytes = _read_bound()
        try:
            states = [(str(file), file.stat()) for file in _files_of(path)]
        except OSError:
            return None
        if not 0 < len(states) <= _MOST_FILES or sum(state.st_size for _, state in states) > most_bytes // 2:
            return None
        files = [
            (name, *(getattr(state, f"st_{key}") for key in ("dev", "ino", "size", "mtime_ns", "ctime_ns")))
            for name, state in states
        ]
        record = json.dumps([files, dict(options), kernels.machine(), *_build()], sort_keys=True)
        folder = Path(named) if named else user_cache("lm")
        return cls(folder / hashlib.sha256(record.encode()).hexdigest()[:40], most_bytes)

    def load(self, threads: int | None) -> LanguageModel | None:
        """Open the model; None where it is not there, or damaged."""
        if not (self.folder / SETTINGS).is_file():
            return None
        try:
            model = load_saved(self.folder, threads, None)
            model = replace(model, description=saved_description(self.folder))
            os.utime(self.folder / SETTINGS)
        except (OSError, IntactError):
            shutil.rmtree(self.folder, ignore_errors=True)
            return None
        return model

    def keep(self, model: LanguageModel) -> None:
        """Write the model, so that another process finds all of it or nothing."""
        new = self.folder.with_name(f"{self.folder.name}.{secrets.token_hex(4)}{_UNFINISHED}")
        try:
            new.mkdir(mode=0o700, parents=True)
            save_model(model, new)
            new.rename(self.folder)
        except (OSError, IntactError):
            shutil.rmtree(new, ignore_errors=True)  # or another process was first
            return
        with suppress(OSError):
            self._trim()

    def _trim(self) -> None:
        """Remove models that were used longest ago until the rest fits the bound, and unfinished ones."""
        used = sorted(
            ((_last_use(folder), folder) for folder in self.folder.parent.iterdir() if folder.is_dir()),
            reverse=True,
        )
        total = 0
        for when, folder in used:
            total += sum(file.stat().st_size for file in folder.iterdir())
            is_left = folder.name.endswith(_UNFINISHED) and when < used[0][0] - 24 * 3600
            if folder != self.folder and (is_left or total > self.most_bytes):
                shutil.rmtree(folder, ignore_errors=True)


def _read_bound() -> int:
    text = os.environ.get(BOUND, "")
    if text and not text.isdecimal():
        raise QuantValueError(BOUND, f"{text!r:.40}", "a number of bytes", "correct the variable")
    return int(text) if text else USUAL_BOUND


def _files_of(path: Path) -> Iterator[Path]:
    """Return the files that decide what a model is."""
    if path.is_dir():
        yield from (file for file in sorted(path.rglob("*")) if file.is_file())
        return
    yield path
    part = _PART.search(path.name)
    if part is not None:
        yield from sorted(path.parent.glob(f"*-of-{part[1]}.gguf"))
    elif path.suffix != ".gguf":
        yield from (file for file in sorted(path.parent.iterdir()) if file.is_file())


def _last_use(folder: Path) -> float:
    settings = folder / SETTINGS
    return (settings if settings.is_file() else folder).stat().st_mtime


def _build() -> list[Any]:
    """Return what tells this build of INTact: of a version in development the state of all its files."""
    if "dev" not in __version__:
        return []
    package = Path(__file__).parents[1]
    return [
        [name, state.st_size, state.st_mtime_ns]
        for name, state in ((str(file), file.stat()) for file in sorted(package.rglob("*.[ps][yo]")))
        if stat.S_ISREG(state.st_mode)
    ]
