"""Chat templates of models, in the sandbox of Jinja, in a process of their own."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from intact.errors import MissingExtraError, QuantValueError, UnsupportedError

_MOST = 2**20  # characters of a template, and of what it makes
_SECONDS = 10.0  # templates of models take milliseconds
_START = "import runpy, sys; sys.path[:] = {paths!r}; runpy.run_path({worker!r}, run_name='__main__')"


def render_chat(template: str, messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
    """Return the prompt of a conversation, with the beginning of the answer.

    Args:
        template: Of the model, in Jinja.
        messages: ``{"role": "user", "content": "..."}``, in order.
        variables: What else the template reads, such as ``bos_token``.
    Raises:
        QuantValueError: The template fails, takes too long, or refuses the messages.
        MissingExtraError: jinja2 is not installed.
    """
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise MissingExtraError.of("jinja2", "lm", "chat templates") from error
    if len(template) > _MOST:
        raise _template_error(f"a template of {len(template)} characters")
    request = {
        "template": template, "most": _MOST,
        "variables": {"messages": list(messages), "add_generation_prompt": True, **variables},
    }  # fmt: skip
    try:
        line = json.dumps(request).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _template_error(str(error)) from error
    reply = _WORKER.ask(line)
    if "text" not in reply:
        raise _template_error(str(reply.get("error")))
    return str(reply["text"])


class _Worker:
    """The process that renders. It starts with the first conversation, and again after it was killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, line: bytes) -> dict[str, Any]:
        """Return the answer to a line; one that takes too long costs the process its life."""
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            timer = threading.Timer(_SECONDS, process.kill)
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
        return {"error": f"more than {_SECONDS:g} seconds, or too much memory"}

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """Leave the process to the parent: a fork may not share its pipes."""
        self._lock, self._process = threading.Lock(), None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            if not sys.executable:
                raise UnsupportedError(
                    "chat template", "no Python executable to render in", "one", "set sys.executable"
                )
            worker = str(Path(__file__).with_name("chat_worker.py"))
            code = _START.format(paths=[path for path in sys.path if path], worker=worker)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True,
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


def _template_error(got: str) -> QuantValueError:
    return QuantValueError(
        "chat template", f"'{got[:200]}'", "messages that the model's template takes",
        "check roles and contents, or build the prompt yourself",
    )  # fmt: skip


_WORKER = _Worker()
atexit.register(_WORKER.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WORKER.forget)
