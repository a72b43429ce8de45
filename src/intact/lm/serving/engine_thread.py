"""The thread that owns a model's engine and its caches: jobs come from other threads and run together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from intact.lm.continuous_batch import ContinuousBatch, SequenceJob
from intact.lm.sequence_cache import SequenceCache


class QueueFullError(Exception):
    """More sequences wait than may."""


class StoppedError(Exception):
    """The thread takes no more jobs."""


class EngineThread:
    """Runs jobs of many clients in one batch.

    Args:
        new_cache: As for `ContinuousBatch`.
        slots: Sequences that run together.
        waiting: Sequences that may wait.
        chunk: Tokens of a prompt in one step.
        idle_seconds: Without a job, until the memory of the sequences that have ended is freed.
    """

    def __init__(
        self, new_cache: Callable[[int], SequenceCache], slots: int, waiting: int, chunk: int,
        idle_seconds: int,
    ) -> None:  # fmt: skip
        self._idle_seconds = idle_seconds
        self._batch, self._most = ContinuousBatch(new_cache, slots, chunk), slots + waiting
        self._wake = threading.Condition()
        self._inbox: list[SequenceJob] = []
        self._open: set[SequenceJob] = set()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="intact-lm-engine", daemon=True)

    def start(self) -> None:
        """Begin to run jobs."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return whether jobs are run."""
        return self._thread.is_alive() and not self._is_stopping

    @property
    def waiting(self) -> int:
        """Sequences that wait."""
        return len(self._inbox) + self._batch.waiting

    @property
    def running(self) -> int:
        """Sequences that run."""
        return self._batch.running

    def submit(self, jobs: Sequence[SequenceJob]) -> None:
        """Take jobs, all or none.

        Raises:
            QueueFullError: Too many wait.
            StoppedError: The thread ends.
        """
        with self._wake:
            if self._is_stopping:
                raise StoppedError
            if len(self._open) + len(jobs) > self._most:
                raise QueueFullError
            self._open.update(jobs)
            self._inbox.extend(jobs)
            self._wake.notify()

    def cancel_all(self) -> None:
        """Take no more jobs, and end those that are there at the next step."""
        with self._wake:
            self._is_stopping = True
            for job in self._open:
                job.is_cancelled = True
            self._wake.notify()

    def stop(self) -> None:
        """End all jobs and the thread."""
        self.cancel_all()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._run_jobs()
        except BaseException as error:  # a fault of this code: nobody may wait for ever
            with self._wake:
                self._is_stopping = True
                jobs, self._inbox = self._inbox, []
            for job in jobs:
                self._batch.add(job)
            self._batch.fail(RuntimeError(f"the engine's thread ended: {error!r}"))
            raise

    def _run_jobs(self) -> None:
        is_busy = False
        while True:
            with self._wake:
                seconds: int | None = self._idle_seconds
                while not (self._inbox or is_busy or self._is_stopping):
                    if not self._wake.wait(seconds):
                        self._batch.release()
                        seconds = None
                if self._is_stopping and not self._inbox and not is_busy:
                    return
                jobs, self._inbox = self._inbox, []
            for job in jobs:
                self._batch.add(job)
            is_busy = self._batch.step()
            with self._wake:
                self._open = {job for job in self._open if not job.is_closed}
