"""Runs sequences together that begin and end at different times.

Each step runs one chunk of one prompt, and one token of every sequence that is generated. Sequences that are
generated lie in the first slots of the cache, so that any number of them is one run. Behind them lies the
one whose prompt is read, and then those that have ended: a prompt that begins like any of them begins there.
No sequence changes the bits of another one (decision 57).
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.errors import IntactError
from intact.lm.generate import CHUNK
from intact.lm.sequence_cache import SequenceCache, shared_prefix


class SequenceJob:
    """One sequence of a batch. The batch calls all methods on its own thread.

    Args:
        prompt: Tokens, one or more.

    Attributes:
        prompt: As given.
        wants_states: `read_states` gets the states of all tokens, and there are no logits.
        wants_prompt_logits: `read_logits` gets those behind every token of the prompt.
        is_cancelled: Any thread sets it. The batch drops the job at its next step.
        is_closed: Nothing follows.
        error: What ended it; None: it came to its end, was cancelled, or runs.
    """

    wants_states = False
    wants_prompt_logits = False

    def __init__(self, prompt: Sequence[int]) -> None:
        self.prompt = list(prompt)
        self.is_cancelled = self.is_closed = False
        self.error: Exception | None = None

    def read_states(self, states: NDArray[np.float32]) -> None:
        """Take the hidden states of the next tokens of the prompt, [tokens, hidden]."""

    def read_logits(self, logits: NDArray[np.float32]) -> None:
        """Take the logits behind the next tokens of the prompt, [tokens, vocabulary]."""

    def next_token(self, logits: NDArray[np.float32]) -> int | None:
        """Return the token to run next, None at the end; `logits` [vocabulary] stand behind the last one."""
        return None

    def on_close(self) -> None:
        """Note that nothing follows: after the last token, a cancellation or an error.

        It is called once; once more, with its error in `error`, where it raised one.
        """


class _Slot:
    """A job that has a place in the cache.

    Attributes:
        job: The job.
        next_token: The token to run; None while the prompt is read, and at the end.
    """

    def __init__(self, job: SequenceJob) -> None:
        self.job = job
        self.next_token: int | None = None


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
        self._begun = [0] * slots  # when the sequence of each place began
        self._clock = 0  # jobs that have begun

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
            False where there is nothing to do.
        """
        self._drop_cancelled()
        try:
            self._begin()
            self._read()
            self._generate()
        except Exception as error:  # of sequences that change places: the cache is as it may be
            self._fail(error)
        return bool(self.running or self._waiting)

    def release(self) -> None:
        """Free the memory of the sequences that have ended, where no job has a slot."""
        if not self.running:
            self._cache = None

    def fail(self, error: Exception) -> None:
        """End all jobs with an error."""
        waiting, self._waiting = list(self._waiting), deque()
        self._fail(error)
        for job in waiting:
            _close(job, error)

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
        job = self._waiting.popleft()
        try:
            self._cache = self._cache or self._new_cache(self._count)
        except Exception as error:  # of memory
            _close(job, error)
            return
        self._reading = _Slot(job)
        reads_all = job.wants_states or job.wants_prompt_logits
        self._choose_place(self._cache, [] if reads_all else job.prompt)

    def _choose_place(self, cache: SequenceCache, prompt: Sequence[int]) -> None:
        """Bring what any sequence shares with a prompt behind the sequences that run.

        A sequence that has ended goes on where at least half of it is shared, as in a conversation. Otherwise
        the one that began first makes room.
        """
        place = len(self._running)
        shared = [shared_prefix(prompt[:-1], tokens) for tokens in cache.tokens]
        source = int(np.argmax(shared))
        count = shared[source]
        target = min(range(place, self._count), key=self._begun.__getitem__)
        if source >= place and 2 * count >= len(cache.tokens[source]):
            target = source
        if target == source:
            cache.truncate(count, target)
        else:
            cache.copy(source, target, count)
        self._swap(target, place)
        self._clock += 1
        self._begun[place] = self._clock

    def _swap(self, first: int, second: int) -> None:
        assert self._cache is not None
        self._cache.swap(first, second)
        self._begun[first], self._begun[second] = self._begun[second], self._begun[first]

    def _read(self) -> None:
        slot, cache = self._reading, self._cache
        if slot is None or cache is None:
            return
        place, job = len(self._running), slot.job
        begin = len(cache.tokens[place])
        part = job.prompt[begin : begin + self._chunk]
        is_last = begin + len(part) == len(job.prompt)
        logits: NDArray[np.float32] | None = None
        try:
            logits, error = self._read_part(cache, job, part, is_last)
        except Exception as failure:  # of the engine: a sequence whose run failed is as it was
            is_last, error = True, failure
        if is_last or error is not None:
            self._reading = None
            if logits is not None and error is None:
                error = _choose(slot, logits)
            if slot.next_token is None:
                _close(job, error)
            else:
                self._running.append(slot)

    def _read_part(
        self, cache: SequenceCache, job: SequenceJob, part: list[int], is_last: bool
    ) -> tuple[NDArray[np.float32] | None, Exception | None]:
        """Run a part of a prompt; return logits behind its last token, and an error of the job's code."""
        place = len(self._running)
        if job.wants_states:
            states = cache.append_states(part, place)
            return None, _call(lambda: job.read_states(states))
        if job.wants_prompt_logits:
            rows = cache.append(part, range(len(part)), place)
            return (rows[-1] if is_last else None), _call(lambda: job.read_logits(rows))
        rows = cache.append(part, (-1,) if is_last else (), place)
        return (rows[0] if is_last else None), None

    def _generate(self) -> None:
        slots, cache = list(self._running), self._cache
        if not slots or cache is None:
            return
        tokens = [slot.next_token for slot in slots if slot.next_token is not None]
        rows: list[NDArray[np.float32]] | None
        try:
            rows = list(cache.append_each(tokens))
        except Exception:  # of the engine: of whose sequence, each alone will show
            rows = None
        for number, slot in enumerate(slots):
            error: Exception | None
            try:
                place = self._running.index(slot)
                logits = cache.append([tokens[number]], (-1,), place)[0] if rows is None else rows[number]
                error = _choose(slot, logits)
            except Exception as failure:
                slot.next_token, error = None, failure
            if slot.next_token is None:
                self._remove(slot)
                _close(slot.job, error)

    def _remove(self, slot: _Slot) -> None:
        """End a sequence: it changes places with the last one, so that those that run stay the first ones."""
        place, last = self._running.index(slot), len(self._running) - 1
        self._swap(place, last)
        self._running[place] = self._running[last]
        del self._running[last]
        if self._reading is not None:
            self._swap(last, last + 1)

    def _fail(self, error: Exception) -> None:
        """End all sequences that have a slot."""
        slots = [*self._running, *([self._reading] if self._reading is not None else [])]
        self._running, self._reading, self._cache = [], None, None
        for slot in slots:
            _close(slot.job, error)


def _choose(slot: _Slot, logits: NDArray[np.float32]) -> Exception | None:
    """Ask a job for its next token; return the error of its code."""
    slot.next_token = None

    def choose() -> None:
        slot.next_token = slot.job.next_token(logits)

    return _call(choose)


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
    failure = _call(job.on_close)
    if failure is not None:  # who waits for the job has to hear of it
        _drop_frames(failure)
        job.error = failure
        _call(job.on_close)


def _drop_frames(error: Exception) -> None:
    """Replace an error's frames by their text: frames keep caches until cycles are collected."""
    if not isinstance(error, IntactError) and error.__traceback__ is not None:
        error.add_note("".join(traceback.format_tb(error.__traceback__)))
    error.__traceback__ = error.__context__ = error.__cause__ = None
