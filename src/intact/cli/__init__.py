"""The command ``intact``: one module per verb. `main` is what the console script calls.

Verbs raise `IntactError`, and the system its own about files; either is printed here, once, without a
traceback, and the exit status is 2.
Typer and rich load with `main`, the frameworks with the verb that needs them.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from intact.errors import IntactError

USER_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb with `arguments` (default: the process's) and exit with its status."""
    from intact.cli.app import build

    try:
        with stopping():
            build()(arguments, prog_name="intact")
    except (IntactError, OSError) as error:
        print(f"intact: {error}", file=sys.stderr)
        sys.exit(USER_ERROR)


@contextmanager
def stopping() -> Iterator[None]:
    """On SIGTERM leave as on an error: what is half written is removed; the status is a shell's, 143."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
