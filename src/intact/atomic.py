"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary neighbour of `path` to write to; it takes the name when the block ends without an error.

    A reader sees the old file or the new one, and an error leaves the old one and no debris.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "model.txt")) as temporary:
    ...         _ = temporary.write_text("whole")
    ...     Path(folder, "model.txt").read_text()
    'whole'
    """
    target = Path(path)
    # No mkstemp: its files are private to the owner, and a model is as readable as any other file.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
