"""Runs sequences together that begin and end at different times.

Each step runs one chunk of one prompt, and one token of every sequence that is generated. Sequences that are
generated lie in the first slots of the cache, so that any number of them is one run. No sequence changes the
bits of another one (decision 57).
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.errors import IntactError
from intact.lm.generate import CHUNK
from intact.lm.sequence_cache import SequenceCache


class SequenceJob:
    """One sequence of a batch. The batch calls all methods on its own thread.

    Args:
        prompt: Tokens, one or more.

    Attributes:
        prompt: As given.
        wants_states: `read_states` gets the states of all tokens, and there are no logits.
        is_cancelled: Any thread sets it. The batch drops the job at its next step.
        is_closed: Nothing follows.
        error: What ended it; None: it came to its end, was cancelled, or runs.
    """

    wants_states = False

    def __init__(self, prompt: Sequence[int]) -> None:
        self.prompt = list(prompt)
        self.is_cancelled = self.is_closed = False
        self.error: Exception | None = None

    def read_states(self, states: NDArray[np.float32]) -> None:
        """Take the hidden states of the next tokens of the prompt, [tokens, hidden]."""

    def next_token(self, logits: NDArray[np.float32]) -> int | None:
        """Return the token to run next, None at the end; `logits` [vocabulary] stand behind the last one."""
        return None

    def on_close(self) -> None:
        """Note that nothing follows: after the last token, a cancellation or an error. It is called once."""


class _Slot:
    """A job that has a place in the cache.

    Attributes:
        job: The job.
        tokens: Those in the cache.
        next_token: The token to run.
    """

    def __init__(self, job: SequenceJob, tokens: list[int]) -> None:
        self.job, self.tokens, self.next_token = job, tokens, 0


class ContinuousBatch:
    """Sequences that run together. One thread owns it.

    Args:
        new_cache: Returns an empty cache for so many sequences.
        slots: Sequences at a time; others wait, and begin in their order.
        chunk: Tokens of a prompt in one step: others wait for no more.
    """

    def __init__(self, new_cache: Callable[[int], SequenceCache], slots: int, chunk: int = CHUNK) -> None:
        self._new_cache, self._count, self._chunk = new_cache, slots, chunk
        self._cache: SequenceCache | None = None
        self._waiting: deque[SequenceJob] = deque()
        self._reading: _Slot | None = None  # has the slot behind those that are generated
        self._running: list[_Slot] = []

    @property
    def waiting(self) -> int:
        """Jobs that have no slot."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Jobs that have one."""
        return len(self._running) + (self._reading is not None)

    def add(self, job: SequenceJob) -> None:
        """Add a job behind those that wait."""
        self._waiting.append(job)

    def step(self) -> bool:
        """Run one chunk of a prompt, and one token of every other sequence.

        Returns:
            False where there is nothing to do. The cache's memory is free then.
        """
        self._drop_cancelled()
        try:
            self._begin()
            self._read()
            self._generate()
        except Exception as error:  # of the engine or of memory: the cache is as it may be
            self._fail(error)
        if self.running or self._waiting:
            return True
        self._cache = None
        return False

    def _drop_cancelled(self) -> None:
        for job in [job for job in self._waiting if job.is_cancelled]:
            self._waiting.remove(job)
            _close(job, None)
        for slot in [slot for slot in self._running if slot.job.is_cancelled]:
            self._remove(slot)
            _close(slot.job, None)
        if self._reading is not None and self._reading.job.is_cancelled:
            job, self._reading = self._reading.job, None
            _close(job, None)

    def _begin(self) -> None:
        """Give the first job that waits a slot, with the tokens that another sequence begins with, too."""
        if self._reading is not None or not self._waiting or len(self._running) == self._count:
            return
        self._cache = self._cache or self._new_cache(self._count)
        job, place = self._waiting.popleft(), len(self._running)
        self._reading = _Slot(job, [])
        self._cache.truncate(0, place)
        if job.wants_states:
            return
        source, most = 0, 0
        for number, slot in enumerate(self._running):
            count = _shared_prefix(job.prompt[:-1], slot.tokens)
            source, most = (number, count) if count > most else (source, most)
        if most:
            self._cache.copy(source, place, most)
            self._reading.tokens = job.prompt[:most]

    def _read(self) -> None:
        slot, cache = self._reading, self._cache
        if slot is None or cache is None:
            return
        begin, place, job = len(slot.tokens), len(self._running), slot.job
        part = job.prompt[begin : begin + self._chunk]
        is_last = begin + len(part) == len(job.prompt)
        logits = None
        if job.wants_states:
            states = cache.append_states(part, place)
        else:
            rows = cache.append(part, (-1,) if is_last else (), place)
            logits = rows[0] if is_last else None
        slot.tokens += part
        error = _call(lambda: job.read_states(states)) if job.wants_states else None
        if is_last or error is not None:
            self._reading = None
            if logits is None:
                _close(job, error)
            elif self._advance(slot, logits):
                self._running.append(slot)

    def _generate(self) -> None:
        slots, cache = list(self._running), self._cache
        if not slots or cache is None:
            return
        rows = cache.append_each([slot.next_token for slot in slots])
        for slot, logits in zip(slots, rows, strict=True):
            slot.tokens.append(slot.next_token)
            if not self._advance(slot, logits):
                self._remove(slot)

    def _advance(self, slot: _Slot, logits: NDArray[np.float32]) -> bool:
        """Ask a job for its next token; return whether there is one."""
        choice: list[int | None] = [None]

        def choose() -> None:
            choice[0] = slot.job.next_token(logits)

        error = _call(choose)
        if choice[0] is None:
            _close(slot.job, error)
            return False
        slot.next_token = choice[0]
        return True

    def _remove(self, slot: _Slot) -> None:
        """Free a slot: the last sequence moves there, so that those that run stay the first ones."""
        place, last = self._running.index(slot), len(self._running) - 1
        assert self._cache is not None
        if place != last:
            self._cache.copy(last, place)
            self._running[place] = self._running[last]
        del self._running[last]
        if self._reading is not None:
            self._cache.copy(last + 1, last)

    def _fail(self, error: Exception) -> None:
        """End all sequences that have a slot."""
        slots = [*self._running, *([self._reading] if self._reading is not None else [])]
        self._running, self._reading, self._cache = [], None, None
        for slot in slots:
            _close(slot.job, error)


def _shared_prefix(first: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two sequences begin with alike."""
    count = min(len(first), len(other))
    differing = np.flatnonzero(np.asarray(first[:count]) != np.asarray(other[:count]))
    return int(differing[0]) if differing.size else count


def _call(action: Callable[[], None]) -> Exception | None:
    """Call code of a job; return its error, which ends that job alone."""
    try:
        action()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except Exception as error:
        return error
    except BaseException as error:  # a panic of Rust's code, in tokenizers and llguidance
        return RuntimeError(str(error))
    return None


def _close(job: SequenceJob, error: Exception | None) -> None:
    if error is not None:
        _drop_frames(error)
    job.error = error
    job.is_closed = True
    _call(job.on_close)


def _drop_frames(error: Exception) -> None:
    """Replace an error's frames by their text: frames keep caches until cycles are collected."""
    if not isinstance(error, IntactError) and error.__traceback__ is not None:
        error.add_note("".join(traceback.format_tb(error.__traceback__)))
    error.__traceback__ = error.__context__ = error.__cause__ = None
