"""Chooses the next token from logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError


@dataclass(frozen=True)
class Sampling:
    """Describes how a token is chosen. The defaults take the one with the largest logit.

    Attributes:
        temperature: Logits are divided by it; 0: the largest one wins, and the first of equal ones.
        top_k: Only so many tokens with the largest logits; 0: all.
        top_p: Only the fewest tokens whose probabilities add up to this share.
        min_p: Only tokens with this share of the largest probability.
        repetition_penalty: Positive logits of tokens that were there are divided by it, others multiplied.
        seed: Of what is drawn: the same seed gives the same tokens on every machine.

    Source: "The Curious Case of Neural Text Degeneration" (top_p); "CTRL" (repetition_penalty); "Min-p
    Sampling".
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        checks = (
            ("temperature", 0 <= self.temperature < float("inf"), "0 or more"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0, at most 1"),
            ("min_p", 0 <= self.min_p < 1, "0 or more, below 1"),
            ("repetition_penalty", 0 < self.repetition_penalty < float("inf"), "above 0"),
            ("seed", self.seed >= 0, "0 or more"),
        )
        for name, fits, want in checks:
            if not fits:
                raise QuantValueError(name, str(getattr(self, name)), want, "change it, or leave it out")


class Sampler:
    """Draws tokens of one sequence. Everything is computed in float64, in one order.

    Args:
        sampling: How.
        stream: Number of the sequence: each draws by itself.
    """

    def __init__(self, sampling: Sampling, stream: int = 0) -> None:
        self._sampling = sampling
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([sampling.seed, stream])))

    def choose(
        self, logits: NDArray[np.float32], history: Sequence[int], allowed: NDArray[np.bool_] | None = None
    ) -> int:
        """Return a token.

        Args:
            logits: float32 [vocabulary].
            history: Tokens so far, for the penalty.
            allowed: bool [vocabulary], tokens to choose from, at least one; None: all.
        """
        how = self._sampling
        values = logits.astype(np.float64)
        if how.repetition_penalty != 1 and history:
            seen = np.unique(np.asarray(history))
            some = values[seen]
            values[seen] = np.where(some > 0, some / how.repetition_penalty, some * how.repetition_penalty)
        if allowed is not None:
            values[~allowed] = -np.inf
        if how.temperature == 0:
            return int(values.argmax())
        order = np.argsort(-values, kind="stable")
        if allowed is not None:
            order = order[: int(allowed.sum())]
        if how.top_k:
            order = order[: how.top_k]
        scaled = values[order] / how.temperature
        shares = np.exp(scaled - scaled[0])
        shares /= shares.sum()
        count = int(np.searchsorted(np.cumsum(shares), how.top_p)) + 1
        if how.min_p:
            count = min(count, int((shares >= how.min_p * shares[0]).sum()))
        shares = shares[: max(count, 1)]
        at = np.searchsorted(np.cumsum(shares) / shares.sum(), self._random.random(), side="right")
        return int(order[min(int(at), len(shares) - 1)])
