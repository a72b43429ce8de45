"""Quantizes for another process: a job comes in on standard input, candidates go out on standard output.

The process has the lowest priority, and ends when the program that started it does.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Any, BinaryIO

from intact.ort.trials.array_messages import Message, read_message, write_message
from intact.ort.trials.candidates import TrialJob, candidates, describe_error

LOWEST_PRIORITY = 19


def main() -> None:
    """Answer one job."""
    with suppress(OSError, AttributeError):  # Windows has no nice
        os.nice(LOWEST_PRIORITY)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    questions = sys.stdin.buffer
    job = read_message(questions)
    if job is None:
        return
    replies = _Replies(questions)
    for candidate in candidates(job_of(job)):
        values = {
            "name": candidate.name, "speedup": candidate.speedup, "in_float": list(candidate.in_float),
            "logits": list(candidate.logits), "failure": candidate.failure,
        }  # fmt: skip
        batches = {name: list(getattr(candidate, name)) for name in ("outputs", "calibration_outputs")}
        write_message(answers, Message(values, batches))
        reply = replies.next()
        if "path" in reply and candidate.engine is not None:
            try:
                candidate.engine.save(reply["path"])
                failure = ""
            except Exception as error:  # a full disk, a folder that is gone
                failure = describe_error(error)
            write_message(answers, Message({"failure": failure}))
            reply = replies.next()
        if not reply.get("next"):
            return
    write_message(answers, Message({"end": True}))


def job_of(message: Message) -> TrialJob:
    """Return the job that a message describes."""
    values = dict(message.values)
    if message.batches.get("source"):
        values["source"] = message.batches["source"][0]["bytes"].tobytes()
    return TrialJob(**values, calibration=message.batches["calibration"], holdout=message.batches["holdout"])


class _Replies:
    """Reads replies in a thread, so that the end of the program ends this process in the middle of work."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._message: dict[str, Any] = {}
        self._has_message = threading.Semaphore(0)
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> dict[str, Any]:
        """Wait for a reply, and return its values."""
        self._has_message.acquire()
        return self._message

    def _read(self) -> None:
        while (message := read_message(self._file)) is not None:
            self._message = dict(message.values)
            self._has_message.release()
        os._exit(0)


if __name__ == "__main__":
    main()
