"""Generates tokens behind a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.lm.sampling import Sampler
from intact.lm.sequence_cache import SequenceCache
from intact.lm.token_grammar import TokenGrammar

CHUNK = 256
"""Tokens of a prompt that run together: no bit depends on it. More are no faster, and take more memory."""


def prefill(cache: SequenceCache, tokens: Sequence[int], sequence: int = 0, chunk: int = CHUNK) -> np.ndarray:
    """Make a sequence a prompt; return the logits behind it, float32 [vocabulary].

    What the cache has of its beginning is not run again, and what it has besides is forgotten.

    Args:
        cache: Of the model.
        tokens: Of the prompt.
        sequence: Its row in the cache.
        chunk: Tokens of one run.
    Raises:
        QuantValueError: The prompt is longer than the cache.
    """
    logits = np.empty(0, np.float32)
    for start in range(cache.rewind(tokens, sequence), len(tokens), chunk):
        part = tokens[start : start + chunk]
        is_last = start + chunk >= len(tokens)
        rows = cache.append(part, (-1,) if is_last else (), sequence)
        logits = rows[-1] if is_last else logits
    return logits


@dataclass(frozen=True)
class StopRules:
    """Rules for the end of a text, beside its count.

    Attributes:
        tokens: End it, too; they are no text.
        ignores_ends: End tokens of the model do not end it.
        least: So many tokens come before one that ends it; a grammar that is complete ends it all the same.
    """

    tokens: frozenset[int] = frozenset()
    ignores_ends: bool = False
    least: int = 0


class TokenChoice:
    """Chooses the tokens of one sequence, until it ends.

    Args:
        prompt: Tokens to begin with.
        sampler: Chooses each token.
        count: At most so many.
        ends: Tokens that end the text; the one that does is chosen, too.
        grammar: What the text follows; None: nothing. It advances with the text.
        least: As of `StopRules`.

    Attributes:
        ends: As given.
        history: The prompt and the tokens so far.
        count: Tokens so far.
        end: Why it ended: "stop" for an end token or a complete grammar, "length" for the count; "" before.
    """

    def __init__(
        self, prompt: Sequence[int], sampler: Sampler, count: int, ends: frozenset[int],
        grammar: TokenGrammar | None = None, least: int = 0,
    ) -> None:  # fmt: skip
        self.history, self._sampler, self._most = list(prompt), sampler, count
        self.ends, self._grammar, self._least = ends, grammar, least
        self.count, self.end = 0, ""

    @property
    def remaining(self) -> int:
        """Tokens that may follow."""
        return self._most - self.count

    def copy(self) -> TokenChoice:
        """Return a choice that goes on with the same draws, on its own."""
        grammar = None if self._grammar is None else self._grammar.copy()
        twin = TokenChoice(self.history, self._sampler.copy(), self._most, self.ends, grammar, self._least)
        twin.count, twin.end = self.count, self.end
        return twin

    def choose(self, logits: np.ndarray) -> int:
        """Return the token behind the last one; `logits` float32 [vocabulary]."""
        grammar = self._grammar
        allowed = grammar.token_mask() if grammar is not None else None
        if self.count < self._least:
            allowed = self._without_ends(allowed, len(logits))
        token = self._sampler.choose(logits, self.history, allowed, len(self.history) - self.count)
        if grammar is not None:
            grammar.push(token)
        self.history.append(token)
        self.count += 1
        if token in self.ends or (grammar is not None and grammar.is_complete):
            self.end = "stop"
        elif self.count >= self._most:
            self.end = "length"
        return token

    def _without_ends(self, allowed: NDArray[np.bool_] | None, vocabulary: int) -> NDArray[np.bool_] | None:
        """Return what may come but the end; the same where nothing else may."""
        without = np.ones(vocabulary, np.bool_) if allowed is None else allowed.copy()
        without[[end for end in self.ends if end < vocabulary]] = False
        return without if without.any() else allowed


def generate_tokens(
    cache: SequenceCache, prompt: Sequence[int], choice: TokenChoice, chunk: int = CHUNK
) -> Iterator[int]:
    """Generate tokens one by one.

    Args:
        cache: Of one sequence; what it has of the beginning of `prompt` is not run again.
        prompt: Tokens to begin with.
        choice: Chooses each token.
        chunk: Tokens of the prompt that run together.
    """
    logits = prefill(cache, prompt, chunk=chunk)
    while True:
        token = choice.choose(logits)
        yield token
        if choice.end:
            return
        logits = cache.append([token])[0]
