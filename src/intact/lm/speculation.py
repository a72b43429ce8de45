"""Generates the same tokens in fewer runs: some are drafted, and run together to see whether they are right.

Exact, because chunks change no bit: each token is chosen from the logits that it would be chosen from alone,
by the same draws. Sources: "Prompt Lookup Decoding"; Leviathan et al. 2023, "Fast Inference from Transformers
via Speculative Decoding", whose rejection is not needed: both models draw with the same random numbers.

A run of 4 tokens takes twice the time of one where products are not bound by memory (SmolLM2, Zen 4: 1, 4, 8
and 16 tokens in 4.8, 9.9, 14.6 and 24.3 ms). So `WidthChoice` tries as many as pay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Protocol

import numpy as np

from intact.lm.generate import CHUNK, TokenChoice, prefill
from intact.lm.sequence_cache import SequenceCache

_DECAY = 0.8
"""Weight of how often tokens were right a run earlier."""

_TILE = 4
"""Tokens of a run that takes little more time than one of two."""

_TIMINGS = 3
"""Runs of each width before it is judged: the first one binds."""

_ALIKE = 16
"""Tokens in front of a proposal that are compared, at most."""

_PAUSE = 16
"""Runs of one token before a draft that costs time is tried again, then twice as many."""


class Draft(Protocol):
    """Proposes tokens.

    Attributes:
        widths: How many may be tried at once: with the token in front of them, whole tiles of 4 rows.
        is_free: Whether a proposal costs next to nothing.
    """

    widths: tuple[int, ...]
    is_free: bool

    def propose(self, choice: TokenChoice, most: int) -> list[int]:
        """Return at most so many tokens that may follow those of `choice`."""


class PromptLookup:
    """Proposes what followed the last tokens before: the longest match, of two or more, at its last place."""

    widths: tuple[int, ...] = (3, 7, 15)
    is_free = True

    def propose(self, choice: TokenChoice, most: int) -> list[int]:
        """Return at most so many tokens that may follow those of `choice`."""
        tokens = np.asarray(choice.history)
        if len(tokens) < 3:
            return []
        starts = np.flatnonzero((tokens[:-2] == tokens[-2]) & (tokens[1:-1] == tokens[-1]))
        for back in range(1, _ALIKE - 1):
            longer = starts[starts >= back]
            longer = longer[tokens[longer - back] == tokens[-2 - back]]
            if not longer.size:
                break
            starts = longer
        if not starts.size:
            return []
        period = len(tokens) - 2 - int(starts[-1])
        return [int(tokens[at % period - period]) for at in range(most)]  # again where it reaches the end


class DraftModel:
    """Proposes what another model chooses.

    Args:
        cache: Of one sequence, of the other model.
        positions: The longest sequence that it takes: nothing is proposed behind that.
    """

    widths: tuple[int, ...] = (3, 7)
    is_free = False

    def __init__(self, cache: SequenceCache, positions: int) -> None:
        self._cache, self._positions = cache, positions

    def propose(self, choice: TokenChoice, most: int) -> list[int]:
        """Return at most so many tokens that may follow those of `choice`."""
        history = choice.history
        if most < 1 or len(history) + most > self._positions:
            return []
        own, proposal = choice.copy(), list[int]()
        # Few sizes: what a run of each costs to bind is a token or two.
        logits = prefill(self._cache, history, chunk=_TILE if self._cache.lengths[0] else CHUNK)
        while True:
            proposal.append(own.choose(logits))
            if own.end or len(proposal) == most:
                return proposal
            logits = self._cache.append(proposal[-1:])[0]


class WidthChoice:
    """Chooses how many tokens to try: by how often they were right of late, and how long runs took.

    Args:
        draft: Whose tokens are tried.
    """

    def __init__(self, draft: Draft) -> None:
        self._is_free, self._widths = draft.is_free, (0, *draft.widths)
        self._seconds: dict[int, deque[float]] = {width: deque(maxlen=4) for width in self._widths}
        self._right = self._tried = 0.0
        self._was_right = True
        self._pause, self._most_pause = 0, _PAUSE

    def choose(self) -> int:
        """Return the number of tokens to try."""
        timed = [width for width in self._widths if len(self._seconds[width]) >= _TIMINGS]
        if 0 not in timed:
            return 0
        best = max(timed, key=lambda width: self._mean_tokens(width) / min(self._seconds[width]))
        is_promising = self._was_right or not (self._is_free or best)
        if is_promising and best == timed[-1] != self._widths[-1]:
            wider = self._widths[len(timed)]
            if self._can_pay(wider):
                return wider
        if best:
            self._pause, self._most_pause = 0, _PAUSE
        if best or self._is_free or not self._can_pay(self._widths[1]):
            return best
        self._pause += 1
        if self._pause <= self._most_pause:
            return 0
        self._pause, self._most_pause = 0, 2 * self._most_pause
        return self._widths[1]

    def note_run(self, width: int, seconds: float) -> None:
        """Note how long a run took that tried so many tokens, with what they cost to find."""
        if width in self._seconds:
            self._seconds[width].append(max(seconds, 1e-9))  # of a coarse clock

    def note_tokens(self, proposal: int, right: int) -> None:
        """Note how many tokens of a proposal were right."""
        if proposal:
            self._was_right = right == proposal
            self._right = _DECAY * self._right + right
            self._tried = _DECAY * self._tried + min(right + 1, proposal)

    def _can_pay(self, width: int) -> bool:
        """Return whether so many tokens would pay if all were right."""
        seconds = self._seconds[width]
        return len(seconds) < 2 or (width + 1) * min(self._seconds[0]) > min(seconds)

    def _mean_tokens(self, width: int) -> float:
        share = (self._right + 0.5) / (self._tried + 1)
        return sum(share**count for count in range(width + 1))


def generate_with_draft(
    cache: SequenceCache, prompt: Sequence[int], choice: TokenChoice, draft: Draft, chunk: int = CHUNK
) -> Iterator[int]:
    """Generate the tokens that `generate_tokens` does, several in a run where the draft is right.

    Args:
        cache, prompt, choice, chunk: As for `generate_tokens`.
        draft: Proposes tokens.
    """
    widths = WidthChoice(draft)
    guesses: list[int] = []
    rows = prefill(cache, prompt, chunk=chunk)[None]
    begin = cache.lengths[0]
    while True:
        for at, row in enumerate(rows):
            token = choice.choose(row)
            yield token
            if choice.end:
                return
            if at < len(guesses) and token != guesses[at]:
                break
        is_wrong = at < len(guesses) and token != guesses[at]
        widths.note_tokens(len(guesses), at if is_wrong else len(guesses))
        cache.truncate(begin + at)
        width = min(widths.choose(), choice.remaining - 1)
        start = perf_counter()
        guesses = draft.propose(choice, max(width, int(draft.is_free)))
        proposal = guesses[:width]
        begin = cache.lengths[0] + 1
        rows = cache.append([token, *proposal], range(len(proposal) + 1))
        widths.note_run(len(proposal), perf_counter() - start)
