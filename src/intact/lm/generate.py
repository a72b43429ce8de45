"""Generates tokens behind a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from intact.lm.sampling import Sampler
from intact.lm.sequence_cache import SequenceCache

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


def generate_tokens(
    cache: SequenceCache, prompt: Sequence[int], sampler: Sampler, count: int, ends: frozenset[int],
    chunk: int = CHUNK,
) -> Iterator[int]:  # fmt: skip
    """Generate tokens one by one, behind what `cache` holds and `prompt`.

    Args:
        cache: Of one sequence.
        prompt: Tokens to begin with.
        sampler: Chooses each token.
        count: At most so many.
        ends: Tokens that end the text; the one that does is generated, too.
        chunk: Tokens of the prompt that run together.
    """
    history = list(prompt)
    logits = prefill(cache, history, chunk=chunk)
    for _ in range(count):
        token = sampler.choose(logits, history)
        yield token
        if token in ends:
            return
        history.append(token)
        logits = cache.append([token])[0]


def generate_by_lookup(
    cache: SequenceCache, prompt: Sequence[int], count: int, ends: frozenset[int], width: int = 8
) -> Iterator[int]:
    """Generate the same tokens as greedy generation does, several in a step where the text repeats itself.

    The tokens that followed the last occurrence of the last two tokens are tried together: of those that
    greedy choice confirms none is computed again.

    Args:
        cache, prompt, count, ends: As for `generate_tokens`.
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
