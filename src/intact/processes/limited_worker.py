"""`LimitedWorker`: a process for code that hostile bytes may crash, hang, or let grow without end."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from intact.errors import FileFormatError, UnsupportedError
from intact.processes.forks import renew_in_child

MEMORY, SECONDS = 4 << 30, 60
"""Bytes and seconds of a call, where it does not say."""

_START = "import runpy, sys; sys.path[:] = {paths!r}; runpy.run_path({script!r}, run_name='__main__')"
_FEW_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
"""Each thread would take address space, which is bounded."""


class LimitedWorker:
    """A process that calls functions for this one. It starts with the first call, and again when it ended.

    Any number of threads may ask: calls run one after the other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)
        renew_in_child(self)

    def call(
        self, where: str, function: str, *, memory: int = MEMORY, seconds: int = SECONDS, **arguments: Any
    ) -> Any:
        """Return what a function returns for JSON values, called in the process.

        Args:
            where: What is read, for errors.
            function: "module:name".
            memory, seconds: What the call may take.
            arguments: Its keyword arguments.
        Raises:
            IntactError: As the function raises it.
            FileFormatError: The process ended, took too long or too much memory, or met another error.
            UnsupportedError: There is no Python executable to start it with.
        """
        request = {"function": function, "arguments": arguments, "memory": memory, "seconds": seconds}
        reply = self._ask(json.dumps(request).encode(), seconds)
        if reply is None:
            raise FileFormatError(
                where, f"a process that ended, or took more than {seconds} seconds, when it read this",
                "what can be read within bounds", "do not use it unless you know where it is from",
            )  # fmt: skip
        if "error" in reply:
            raise _error_of(where, reply)
        return reply["result"]

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def after_fork(self) -> None:
        """Leave the process to the parent: a fork may not share its pipes."""
        self._lock, self._process = threading.Lock(), None

    def _ask(self, line: bytes, seconds: int) -> dict[str, Any] | None:
        """Return the answer to a line; None where there is none, and the process is gone."""
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
                    "untrusted files", "no Python executable to read them in", "one", "set sys.executable"
                )
            script = str(Path(__file__).with_name("worker_main.py"))
            code = _START.format(paths=[path for path in sys.path if path], script=script)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, **_FEW_THREADS},
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


def _error_of(where: str, reply: dict[str, Any]) -> Exception:
    """Return the error that a call in the process ended in."""
    import intact.errors as errors

    parts = [str(part) for part in reply.get("parts", ())]
    kind = getattr(errors, str(reply.get("class")), None)
    if isinstance(kind, type) and issubclass(kind, errors.IntactError) and all(parts) and len(parts) == 4:
        error: Exception = kind(*parts)
        return error
    return FileFormatError(
        where, f"'{reply.get('class')}: {reply['error']}' when it was read", "a sound file",
        "do not use it unless you know where it is from",
    )  # fmt: skip
