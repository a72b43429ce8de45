"""Renders chat templates in a process of its own, which `chat_template` starts and may kill.

A template comes with a model, from a stranger. Jinja's sandbox keeps it from Python, but not from nested
loops or from strings that double. So the parent bounds its time, and the system its memory. The process reads
and writes one JSON line for each conversation. It imports nothing of INTact.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, NoReturn

MEMORY = 2**30  # bytes of the process, where the system can hold it to that
SECONDS = 20  # of CPU for one conversation, should nobody be left to kill the process


def main() -> None:
    """Answer lines until the input ends."""
    out = sys.stdout.buffer
    _limit_memory()
    cached: dict[str, Any] = {}
    for line in sys.stdin.buffer:
        _limit_time()
        try:
            answer = {"text": _render(json.loads(line), cached)}
            reply = json.dumps(answer).encode()
        except Exception as error:
            reply = json.dumps({"error": str(error)[:200] or type(error).__name__}).encode()
        out.write(reply + b"\n")
        out.flush()


def _render(request: dict[str, Any], cached: dict[str, Any]) -> str:
    text, most = request["template"], request["most"]
    if text not in cached:
        cached.clear()
        cached[text] = _environment().from_string(text)
    pieces, length = [], 0
    for piece in cached[text].generate(**request["variables"]):
        length += len(piece)
        if length > most:
            raise ValueError(f"a prompt of more than {most} characters")
        pieces.append(piece)
    return "".join(pieces)


def _environment() -> Any:
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(text: str) -> NoReturn:
        raise TemplateError(text)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals.update(raise_exception=refuse)
    environment.filters["tojson"] = _to_json
    return environment


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    """Write JSON as transformers does; Jinja's own filter escapes what HTML reads."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _limit_time() -> None:
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + SECONDS, hard))
    except (ImportError, ValueError, OSError):
        pass


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows: the time limit alone
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ValueError, OSError):  # macOS lets no process do that
        pass


if __name__ == "__main__":
    main()
