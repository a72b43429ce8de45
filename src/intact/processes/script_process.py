"""`ScriptProcess`: a process that answers lines, and is ended where one takes too long."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intact.errors import UnsupportedError
from intact.processes.forks import renew_in_child

_START = "import runpy, sys; sys.path[:] = {paths!r}; runpy.run_path({script!r}, run_name='__main__')"


class ScriptProcess:
    """A process that runs a script, which answers each line of JSON with one. It starts with the first line,
    and again when it ended.

    Any number of threads may ask: lines are answered one after the other.

    Args:
        script: What it runs.
        where, purpose: For the error where Python has no executable, as "chat template", "to render in".
        environment: Variables beside those of this process.
    """

    def __init__(
        self, script: Path, where: str, purpose: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self._script, self._where, self._purpose = script, where, purpose
        self._environment = environment
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)
        renew_in_child(self)

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def after_fork(self) -> None:
        """Leave the process to the parent: a fork may not share its pipes."""
        self._lock, self._process = threading.Lock(), None

    def ask(self, line: bytes, seconds: float) -> dict[str, Any] | None:
        """Return the answer to a line; None where there is none, and the process is gone.

        Raises:
            UnsupportedError: There is no Python executable to start it with.
        """
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            timer = threading.Timer(seconds, process.kill)
            timer.start()
            try:
                process.stdin.write(line + b"\n")
                process.stdin.flush()
                reply = process.stdout.readline()
                record = json.loads(reply) if reply.endswith(b"\n") else None
            except (OSError, ValueError):
                record = None
            finally:
                timer.cancel()
                timer.join()
            if isinstance(record, dict):
                return record
            self._stop()
        return None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            if not sys.executable:
                raise UnsupportedError(
                    self._where, f"no Python executable {self._purpose}", "one", "set sys.executable"
                )
            code = _START.format(paths=[path for path in sys.path if path], script=str(self._script))
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True,
                env=None if self._environment is None else {**os.environ, **self._environment},
            )  # fmt: skip
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                try:
                    if pipe is not None:
                        pipe.close()
                except OSError:  # what was to be flushed has no reader
                    pass
