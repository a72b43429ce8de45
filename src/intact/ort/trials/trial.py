"""`RunningTrial`: a model that is being quantized, in a process of its own or in the thread that asks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from intact.errors import UnsupportedError
from intact.ort.trials.array_messages import Batch, Message, read_message, write_message
from intact.ort.trials.candidates import TrialJob, candidates, describe_error

if TYPE_CHECKING:
    from intact.engine import Engine

_START = "import sys; sys.path[:] = {paths!r}; from intact.ort.trials.trial_main import main; main()"


@dataclass(frozen=True)
class CandidateReport:
    """Describes a candidate without its engine: attributes as for `Candidate`."""

    name: str
    speedup: float
    in_float: list[str]
    logits: list[str]
    failure: str
    outputs: list[Batch]
    calibration_outputs: list[Batch]


class RunningTrial(ABC):
    """A model that is being quantized in several ways, one after the other."""

    @abstractmethod
    def next(self) -> CandidateReport | None:
        """Wait for the next candidate; None where there is no other."""

    @abstractmethod
    def save(self, path: Path) -> str:
        """Write the plan of the last candidate; return why that failed, "" where it did not."""

    @abstractmethod
    def stop(self) -> None:
        """End it, from any thread."""


class ThreadTrial(RunningTrial):
    """Quantizes in the thread that asks."""

    def __init__(self, job: TrialJob) -> None:
        self._candidates = candidates(job)
        self._engine: Engine | None = None
        self._is_stopped = False

    def next(self) -> CandidateReport | None:
        candidate = None if self._is_stopped else next(self._candidates, None)
        if candidate is None:
            return None
        self._engine = candidate.engine
        return CandidateReport(
            candidate.name, candidate.speedup, list(candidate.in_float), list(candidate.logits),
            candidate.failure, list(candidate.outputs), list(candidate.calibration_outputs),
        )  # fmt: skip

    def save(self, path: Path) -> str:
        try:
            assert self._engine is not None, "only what has an engine is taken"
            self._engine.save(path)
        except Exception as error:  # a full disk, a folder that is gone
            return describe_error(error)
        return ""

    def stop(self) -> None:
        self._is_stopped = True


class ProcessTrial(RunningTrial):
    """Quantizes in a process of low priority: neither its work nor its end disturbs the program.

    Raises:
        UnsupportedError: There is no Python to start.
    """

    def __init__(self, job: TrialJob) -> None:
        if not sys.executable or getattr(sys, "frozen", False):
            raise UnsupportedError(
                "intact.ort", "no Python executable to quantize with", "one",
                "set sys.executable, or intact.ort.policy(isolate=False)",
            )  # fmt: skip
        code = _START.format(paths=[str(Path(path).absolute()) for path in sys.path if path])
        environment = {**os.environ, "INTACT_ORT": "off", "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, process_group=0, env=environment, cwd=os.sep,
        )  # fmt: skip
        self._has_begun = False
        self._is_alive = True
        assert self._process.stdin is not None and self._process.stdout is not None
        self._questions = cast("BinaryIO", self._process.stdin)
        self._answers = cast("BinaryIO", self._process.stdout)
        self._is_alive = self._tell(_message_of(job))

    def next(self) -> CandidateReport | None:
        if self._has_begun:
            self._tell(Message({"next": True}))
        self._has_begun = True
        message = self._answer()
        if message is None or "end" in message.values:
            return None
        batches = message.batches
        return CandidateReport(
            **message.values,
            outputs=list(batches["outputs"]),
            calibration_outputs=list(batches["calibration_outputs"]),
        )

    def save(self, path: Path) -> str:
        self._tell(Message({"path": str(path)}))
        message = self._answer()
        return "the process that quantizes ended" if message is None else str(message.values["failure"])

    def stop(self) -> None:
        with suppress(OSError):
            self._process.kill()
        self._process.wait()
        for pipe in (self._questions, self._answers):
            with suppress(OSError, ValueError):
                pipe.close()

    @property
    def has_crashed(self) -> bool:
        """True where the process ended in the middle of its work."""
        return not self._is_alive

    def _tell(self, message: Message) -> bool:
        try:
            write_message(self._questions, message)
        except (OSError, ValueError):
            return False
        return True

    def _answer(self) -> Message | None:
        try:
            message = read_message(self._answers)
        except (OSError, ValueError):
            message = None
        self._is_alive = message is not None
        return message


class TimeLimit:
    """Stops a trial that takes too long.

    Args:
        trial: It.
        seconds: After which it is stopped, unless `cancel` comes first.
    """

    def __init__(self, trial: RunningTrial, seconds: float) -> None:
        self._trial, self._has_ended = trial, threading.Event()
        self._timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._end)
        self._timer.daemon = True
        self._timer.start()

    @property
    def has_ended(self) -> bool:
        """True where the trial was stopped."""
        return self._has_ended.is_set()

    def cancel(self) -> None:
        """Let the trial go on."""
        self._timer.cancel()

    def _end(self) -> None:
        self._has_ended.set()
        self._trial.stop()


def _message_of(job: TrialJob) -> Message:
    batches = {"calibration": job.calibration, "holdout": job.holdout}
    if isinstance(job.source, bytes):
        batches["source"] = [{"bytes": np.frombuffer(job.source, np.uint8)}]
    values = {
        "source": "" if isinstance(job.source, bytes) else job.source,
        "threads": job.threads, "level": job.level, "has_codes": job.has_codes,
        "output_names": list(job.output_names), "new_shape_share": job.new_shape_share,
        "is_timed": job.is_timed, "ruled_out": list(job.ruled_out), "run_seconds": job.run_seconds,
    }  # fmt: skip
    return Message(values, batches)


@contextmanager
def start_trial(job: TrialJob, isolate: bool) -> Iterator[RunningTrial]:
    """Start to quantize; it is stopped when the block ends."""
    trial = ProcessTrial(job) if isolate else ThreadTrial(job)
    try:
        yield trial
    finally:
        trial.stop()
