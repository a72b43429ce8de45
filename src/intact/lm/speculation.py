"""Generates the same tokens in fewer runs: some are drafted, and run together to see whether they are right.

Exact, because chunks change no bit: each token is chosen from the logits that it would be chosen from alone,
by the same draws. Sources: "Prompt Lookup Decoding"; Leviathan et al. 2023, "Fast Inference from Transformers
via Speculative Decoding", whose rejection is not needed: both models draw with the same random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from intact.lm.generate import CHUNK, TokenChoice, prefill
from intact.lm.sequence_cache import SequenceCache

WIDTH = 8
"""Tokens that follow the same words, at most: they cost nothing to find."""

DRAFT_WIDTH = 4
"""Tokens that a draft model proposes, at most: each costs it a step."""


class Draft(Protocol):
    """Proposes tokens."""

    def propose(self, choice: TokenChoice, most: int) -> list[int]:
        """Return at most so many tokens that may follow those of `choice`."""


class PromptLookup:
    """Proposes what followed the last occurrence of the last two tokens."""

    def propose(self, choice: TokenChoice, most: int) -> list[int]:
        """Return at most so many tokens that may follow those of `choice`."""
        tokens, width = np.asarray(choice.history), min(most, WIDTH)
        if len(tokens) < 3:
            return []
        starts = np.flatnonzero((tokens[:-2] == tokens[-2]) & (tokens[1:-1] == tokens[-1]))
        return [] if not starts.size else [int(t) for t in tokens[starts[-1] + 2 : starts[-1] + 2 + width]]


class DraftModel:
    """Proposes what another model chooses.

    Args:
        cache: Of one sequence, of the other model.
        positions: The longest sequence that it takes: nothing is proposed behind that.
    """

    def __init__(self, cache: SequenceCache, positions: int) -> None:
        self._cache, self._positions = cache, positions

    def propose(self, choice: TokenChoice, most: int) -> list[int]:
        """Return at most so many tokens that may follow those of `choice`."""
        history, width = choice.history, min(most, DRAFT_WIDTH)
        if width < 1 or len(history) + width > self._positions:
            return []
        own, proposal = choice.copy(), list[int]()
        logits = prefill(self._cache, history)
        while True:
            proposal.append(own.choose(logits))
            if own.end or len(proposal) == width:
                return proposal
            logits = self._cache.append(proposal[-1:])[0]


def generate_with_draft(
    cache: SequenceCache, prompt: Sequence[int], choice: TokenChoice, draft: Draft, chunk: int = CHUNK
) -> Iterator[int]:
    """Generate the tokens that `generate_tokens` does, several in a run where the draft is right.

    Args:
        cache, prompt, choice, chunk: As for `generate_tokens`.
        draft: Proposes tokens.
    """
    proposal: list[int] = []
    rows = prefill(cache, prompt, chunk=chunk)[None]
    begin = cache.lengths[0]
    while True:
        for at, row in enumerate(rows):
            token = choice.choose(row)
            yield token
            if choice.end:
                return
            if at < len(proposal) and token != proposal[at]:
                break
        cache.truncate(begin + at)
        proposal = draft.propose(choice, choice.remaining - 1)
        begin = cache.lengths[0] + 1
        rows = cache.append([token, *proposal], range(len(proposal) + 1))
