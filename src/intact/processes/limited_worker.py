"""`LimitedWorker`: a process for code that hostile bytes may crash, hang, or let grow without end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from intact.errors import FileFormatError
from intact.processes.script_process import ScriptProcess

MEMORY, SECONDS = 4 << 30, 60
"""Bytes and seconds of a call, where it does not say."""

_FEW_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
"""Each thread would take address space, which is bounded."""


class LimitedWorker:
    """A process that calls functions for this one. It starts with the first call, and again when it ended.

    Any number of threads may ask: calls run one after the other.
    """

    def __init__(self) -> None:
        script = Path(__file__).with_name("worker_main.py")
        self._process = ScriptProcess(script, "untrusted files", "to read them in", _FEW_THREADS)

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
        reply = self._process.ask(json.dumps(request).encode(), seconds)
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
        self._process.stop()


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
