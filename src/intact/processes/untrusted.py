"""Files of strangers are read in a limited process first, where an abort hurts nobody.

    with untrusted_files():
        model = lm.load(folder)     # tokenizers, grammars and graphs are tried in another process

The libraries that parse them are C++ and Rust: some bytes end the process that they run in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from intact.processes.limited_worker import MEMORY, SECONDS, LimitedWorker

_PER_BYTE, _FILE_SECONDS = 16, 600
"""Memory for each byte of a file, beside `MEMORY`, and seconds for a file."""
_untrusted: ContextVar[bool] = ContextVar("_untrusted", default=False)


@contextmanager
def untrusted_files(is_on: bool = True) -> Iterator[None]:
    """Try files that are read inside of the block in a limited process before this process reads them."""
    token = _untrusted.set(is_on)
    try:
        yield
    finally:
        _untrusted.reset(token)


def reads_untrusted_files() -> bool:
    """Return whether files are those of strangers."""
    return _untrusted.get()


def try_in_worker(
    where: str, function: str, *, memory: int = MEMORY, seconds: int = SECONDS, **arguments: Any
) -> Any:
    """Return what a function returns in the limited process; arguments and errors as for
    `LimitedWorker.call`."""
    return _worker().call(where, function, memory=memory, seconds=seconds, **arguments)


def try_file(where: str, function: str, source: str | os.PathLike[str] | bytes, **arguments: Any) -> None:
    """Let the limited process call a function with a file: as its argument `source`.

    Args:
        where, function, arguments: As for `try_in_worker`.
        source: The file, or its bytes.
    """
    if isinstance(source, bytes):
        with TemporaryDirectory() as folder:
            path = Path(folder, "model")
            path.write_bytes(source)
            try_file(where, function, path, **arguments)
        return
    size = Path(source).stat().st_size
    try_in_worker(
        where, function, memory=MEMORY + _PER_BYTE * size, seconds=_FILE_SECONDS, source=os.fspath(source),
        **arguments,
    )  # fmt: skip


@cache
def _worker() -> LimitedWorker:
    return LimitedWorker()
