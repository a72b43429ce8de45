"""Generates tokens behind a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from intact.lm.sampling import Sampler
from intact.lm.sequence_cache import SequenceCache
from intact.lm.token_grammar import TokenGrammar

CHUNK = 512
"""Tokens of a prompt that run together: no bit depends on it."""


def prefill(cache: SequenceCache, tokens: Sequence[int], sequence: int = 0, chunk: int = CHUNK) -> np.ndarray:
    """Append a prompt in chunks; return the logits behind it, float32 [vocabulary]."""
    logits = np.empty(0, np.float32)
    for start in range(0, len(tokens), chunk):
        part = tokens[start : start + chunk]
        is_last = start + chunk >= len(tokens)
        rows = cache.append(part, (-1,) if is_last else (), sequence)
        logits = rows[-1] if is_last else logits
    return logits


class TokenChoice:
    """Chooses the tokens of one sequence, until it ends.

    Args:
        prompt: Tokens to begin with.
        sampler: Chooses each token.
        count: At most so many.
        ends: Tokens that end the text; the one that does is chosen, too.
        grammar: What the text follows; None: nothing. It advances with the text.

    Attributes:
        count: Tokens so far.
        end: Why it ended: "stop" for an end token or a complete grammar, "length" for the count; "" before.
    """

    def __init__(
        self, prompt: Sequence[int], sampler: Sampler, count: int, ends: frozenset[int],
        grammar: TokenGrammar | None = None,
    ) -> None:  # fmt: skip
        self._history, self._sampler, self._most = list(prompt), sampler, count
        self._ends, self._grammar = ends, grammar
        self.count, self.end = 0, ""

    def choose(self, logits: np.ndarray) -> int:
        """Return the token behind the last one; `logits` float32 [vocabulary]."""
        grammar = self._grammar
        allowed = grammar.token_mask() if grammar is not None else None
        token = self._sampler.choose(logits, self._history, allowed)
        if grammar is not None:
            grammar.push(token)
        self._history.append(token)
        self.count += 1
        if token in self._ends or (grammar is not None and grammar.is_complete):
            self.end = "stop"
        elif self.count >= self._most:
            self.end = "length"
        return token


def generate_tokens(
    cache: SequenceCache, prompt: Sequence[int], choice: TokenChoice, chunk: int = CHUNK
) -> Iterator[int]:
    """Generate tokens one by one, behind what `cache` holds and `prompt`.

    Args:
        cache: Of one sequence.
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


def generate_by_lookup(
    cache: SequenceCache, prompt: Sequence[int], count: int, ends: frozenset[int], width: int = 8
) -> Iterator[int]:
    """Generate the same tokens as greedy generation does, several in a step where the text repeats itself.

    The tokens that followed the last occurrence of the last two tokens are tried together: of those that
    greedy choice confirms none is computed again.

    Args:
        cache, prompt: As for `generate_tokens`.
        count, ends: As for `TokenChoice`.
        width: Tokens that are tried, at most.

    Source: "Prompt Lookup Decoding"; exact because chunks change no bit.
    """
    history = list(prompt)
    token = int(prefill(cache, history).argmax())
    produced = 0
    while True:
        draft = _continuation([*history, token], width)[: max(0, count - produced - 1)]
        begin = cache.lengths[0]
        rows = cache.append([token, *draft], range(len(draft) + 1))
        choices = [int(row.argmax()) for row in rows]
        agreed = 0
        while agreed < len(draft) and draft[agreed] == choices[agreed]:
            agreed += 1
        cache.truncate(begin + 1 + agreed)
        for one_more in (token, *draft[:agreed]):
            yield one_more
            produced += 1
            history.append(one_more)
            if one_more in ends or produced >= count:
                return
        token = choices[agreed]


def _continuation(history: Sequence[int], width: int) -> list[int]:
    """Return the tokens behind the last earlier occurrence of the last two tokens."""
    if len(history) < 3:
        return []
    tokens = np.asarray(history)
    starts = np.flatnonzero((tokens[:-2] == tokens[-2]) & (tokens[1:-1] == tokens[-1]))
    return [] if not starts.size else [int(t) for t in tokens[starts[-1] + 2 : starts[-1] + 2 + width]]
