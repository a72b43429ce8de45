"""Runs a verb, and turns its errors and warnings into single lines and an exit status."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer

from intact.cli.app import build
from intact.cli.printing import complain
from intact.errors import IntactError

_UsageError: Any = typer.BadParameter.__base__  # click's; newer versions of typer bring a click of their own


def run_verb(arguments: Sequence[str] | None) -> int:
    """Run one verb, print its error, and return the exit status."""
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that this terminal cannot show is no error
            stream.reconfigure(errors="backslashreplace")
    try:
        with stop_on_sigterm():
            status = build()(arguments, prog_name="intact", standalone_mode=False)
        sys.stdout.flush()
    except IntactError as error:
        return _report_error(error)
    except _UsageError as error:
        return _report_usage(error)
    except _Stopped:
        return TERMINATED
    except (SystemExit, BrokenPipeError):  # typer exits where nobody reads any more, with a status of verbs
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
        return BROKEN_PIPE
    except OSError as error:
        return _report_error(error)
    except MemoryError as error:
        return _report_error(f"out of memory{f': {error}' if str(error) else ''}")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception:
        for line in traceback.format_exc().splitlines():
            complain(line)
        complain("intact: this is a fault of INTact, not of its user: please report it with the lines above")
        return FAULT
    return status if isinstance(status, int) else 0


def _open_closed() -> None:
    """Open streams that the caller closed (``>&-``), because a file would get their number otherwise."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
        setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _report_error(error: object) -> int:
    complain(f"intact: {error}")
    return USER_ERROR


def _report_usage(error: Any) -> int:
    """Print an error of an option or argument, and return the exit status."""
    if type(error).__name__ != "NoArgsIsHelpError":  # whose help is printed already
        context = error.ctx
        complain(f"intact: {error.format_message()}")
        if context is not None:
            complain(f"Try '{context.command_path} --help'.")
    return USER_ERROR


class _Stopped(SystemExit):
    """Signals that SIGTERM ended the verb, after all blocks were left."""


class _Stop(BaseException):
    """Signals SIGTERM; it is no SystemExit, so that it does not count as an exit of user code."""


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Leave the block on SIGTERM as on an error, so that half-written files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    except _Stop:
        raise _Stopped(TERMINATED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stop


@contextmanager
def warnings_in_lines() -> Iterator[None]:
    """Print warnings as one line each, without their place in the code."""
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        complain(f"intact: warning: {message}")

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


USER_ERROR, FAULT = 2, 70
BROKEN_PIPE, INTERRUPTED, TERMINATED = 128 + 13, 128 + 2, 128 + 15
