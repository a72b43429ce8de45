"""Calls functions by name in a process that its parent may kill, one JSON line for each call.

`limited_worker` starts it. The system bounds its memory and its CPU time. A request names a function of a
module, and its arguments; the answer is what it returns, None for what is no JSON, or its error. An abort
ends this process alone.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any


def main() -> None:
    """Answer lines until the input ends."""
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints is no answer
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _limit("RLIMIT_AS", request["memory"])
        _limit("RLIMIT_CPU", int(time.process_time()) + request["seconds"] + 1)
        _limit("RLIMIT_CORE", 0)
        out.write(json.dumps(_answer(request), default=lambda result: None).encode() + b"\n")
        out.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call, or its error: of INTact's its class and its four parts."""
    module, _, function = request["function"].partition(":")
    try:
        return {"result": getattr(importlib.import_module(module), function)(**request["arguments"])}
    except Exception as error:
        parts = [getattr(error, name, "") for name in ("where", "got", "want", "fix")]
        return {"error": str(error)[:500], "class": type(error).__name__, "parts": parts}


def _limit(name: str, most: int) -> None:
    """Set a limit of the system, where it has it."""
    try:
        import resource

        number = getattr(resource, name)
        _, hard = resource.getrlimit(number)
        resource.setrlimit(number, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    except (ImportError, ValueError, OSError):  # Windows, or macOS, which holds no process to its memory
        pass


if __name__ == "__main__":
    main()
