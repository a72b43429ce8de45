"""Chooses the next token from logits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, isfinite

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.numerics import exp64


@dataclass(frozen=True)
class Sampling:
    """Describes how a token is chosen. The defaults take the one with the largest logit.

    Attributes:
        temperature: Logits are divided by it; 0: the largest one wins, and the first of equal ones.
        top_k: Only so many tokens with the largest logits; 0: all.
        top_p: Only the fewest tokens whose probabilities add up to this share.
        min_p: Only tokens with this share of the largest probability.
        repetition_penalty: Positive logits of tokens that were there are divided by it, others multiplied.
        presence_penalty, frequency_penalty: Are taken from the logits of tokens that were generated: once,
            and for each time.
        logit_bias: Is added to logits, by token.
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
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks = (
            ("temperature", 0 <= self.temperature < float("inf"), "0 or more"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0, at most 1"),
            ("min_p", 0 <= self.min_p < 1, "0 or more, below 1"),
            ("repetition_penalty", 0 < self.repetition_penalty < float("inf"), "above 0"),
            ("seed", self.seed >= 0, "0 or more"),
            ("presence_penalty", isfinite(self.presence_penalty), "a finite number"),
            ("frequency_penalty", isfinite(self.frequency_penalty), "a finite number"),
            (
                "logit_bias",
                all(token >= 0 and isfinite(bias) for token, bias in self.logit_bias.items()),
                "finite numbers by token",
            ),
        )
        for name, fits, want in checks:
            if not fits:
                raise QuantValueError(name, str(getattr(self, name)), want, "change it, or leave it out")


_HEAD = 1024
"""Tokens among which those of `top_p` are sought first."""

_MODERATE = 2.0**20
"""Penalties and biases up to here are added in float64, and larger ones, in which logits vanish, exactly."""

_COLD = 2.0**-10
"""Temperature below which what rounding loses of a sum would show."""


class Sampler:
    """Draws tokens of one sequence. Everything is computed in float64, in one order.

    Args:
        sampling: How.
        stream: Number of the sequence: each draws by itself.
    """

    def __init__(self, sampling: Sampling, stream: int = 0) -> None:
        self._sampling = sampling
        self._is_extreme = _is_extreme(sampling)
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([sampling.seed, stream])))

    def copy(self) -> Sampler:
        """Return a sampler that draws what this one is going to."""
        twin = Sampler(self._sampling)
        twin._random.bit_generator.state = self._random.bit_generator.state
        return twin

    def choose(
        self, logits: NDArray[np.float32], history: Sequence[int], allowed: NDArray[np.bool_] | None = None,
        begin: int = 0,
    ) -> int:  # fmt: skip
        """Return a token.

        Args:
            logits: float32 [vocabulary].
            history: Tokens so far, for the penalty.
            allowed: bool [vocabulary], tokens to choose from, at least one; None: all.
            begin: Place in `history` of the first token that was generated.
        Raises:
            QuantValueError: `logit_bias` names a token that the vocabulary lacks.
        """
        how = self._sampling
        if how.logit_bias and (largest := max(how.logit_bias)) >= len(logits):
            raise QuantValueError("logit_bias", str(largest), f"tokens below {len(logits)}", "leave it out")
        if self._is_extreme:
            values = self._exact_differences(logits, history, allowed, begin)
        else:
            values = self._adjust(logits.astype(np.float64), history, begin)
        if allowed is not None:
            values[~allowed] = -np.inf
        if how.temperature == 0:
            return int(values.argmax())
        if allowed is not None:
            places = np.flatnonzero(allowed)
            return int(places[self._draw(values[places])])
        return self._draw(values)

    def _adjust(self, values: NDArray[np.float64], history: Sequence[int], begin: int) -> NDArray[np.float64]:
        """Return logits with penalties and biases, which change the argument."""
        how = self._sampling
        if how.repetition_penalty != 1 and history:
            seen = np.unique(np.asarray(history))
            some = values[seen]
            values[seen] = np.where(some > 0, some / how.repetition_penalty, some * how.repetition_penalty)
        if (how.presence_penalty or how.frequency_penalty) and len(history) > begin:
            tokens, counts = np.unique(np.asarray(history[begin:]), return_counts=True)
            values[tokens] -= how.presence_penalty + how.frequency_penalty * counts
        for token, bias in how.logit_bias.items():
            values[token] += bias
        return values

    def _exact_differences(
        self, logits: NDArray[np.float32], history: Sequence[int], allowed: NDArray[np.bool_] | None,
        begin: int,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return logits with penalties and biases less the largest of those that are allowed.

        Tokens that a setting changes are computed as fractions, so that no setting is too large.
        """
        how = self._sampling
        seen, generated = set(history), Counter(history[begin:])
        exact: dict[int, Fraction] = {}
        for token in seen.union(how.logit_bias):
            if not isfinite(logits[token]):
                continue
            value = Fraction(float(logits[token]))
            if how.repetition_penalty != 1 and token in seen:
                factor = Fraction(how.repetition_penalty)
                value = value / factor if value > 0 else value * factor
            if count := generated[token]:
                value -= Fraction(how.presence_penalty) + Fraction(how.frequency_penalty) * count
            exact[token] = value + Fraction(how.logit_bias.get(token, 0.0))
        values = logits.astype(np.float64)
        is_plain = np.ones(len(values), np.bool_) if allowed is None else allowed.copy()
        is_plain[list(exact)] = False
        candidates = [value for token, value in exact.items() if allowed is None or allowed[token]]
        if is_plain.any() and isfinite(largest := float(values[is_plain].max())):
            candidates.append(Fraction(largest))
        top = max(candidates, default=Fraction(0))
        head = _float(top)
        values = (values - head) - _float(top - Fraction(head)) if isfinite(head) else values - head
        values[list(exact)] = [_float(value - top) for value in exact.values()]
        return values

    def _draw(self, values: NDArray[np.float64]) -> int:
        """Return the place of a value, drawn by softmax of what the settings leave."""
        how = self._sampling
        order = largest_first(values, how.top_k) if how.top_k else np.arange(len(values))
        below = values[order] - values[order].max()
        with np.errstate(over="ignore"):  # of a tiny temperature: minus infinity, whose share is 0
            shares = exp64(below / how.temperature)
        shares /= _sums(shares)[-1]
        if how.top_p < 1:
            order, shares = self._nucleus(values, order, shares)
        if how.min_p:
            large = shares >= how.min_p * shares.max()
            order, shares = order[large], shares[large]
        sums = _sums(shares)
        at = int(np.searchsorted(sums / sums[-1], self._random.random(), side="right"))
        return int(order[min(at, len(order) - 1)])

    def _nucleus(
        self, values: NDArray[np.float64], order: NDArray[np.int64], shares: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the fewest of the largest shares that add up to `top_p`, in descending order."""
        for most in dict.fromkeys((min(_HEAD, len(order)), len(order))):
            first = largest_first(values[order], most)
            sums = _sums(shares[first])
            if sums[-1] >= self._sampling.top_p:
                break
        first = first[: int(np.searchsorted(sums, self._sampling.top_p)) + 1]
        return order[first], shares[first]


def _is_extreme(how: Sampling) -> bool:
    """Return whether float64 would lose what the settings mean."""
    sizes = (how.presence_penalty, how.frequency_penalty, *how.logit_bias.values())
    is_changed = how.repetition_penalty != 1 or any(sizes)
    is_large = max(map(abs, sizes)) > _MODERATE
    is_factor_large = not 1 / _MODERATE <= how.repetition_penalty <= _MODERATE
    return is_changed and (is_large or is_factor_large or 0 < how.temperature < _COLD)


def _float(value: Fraction) -> float:
    """Return the nearest float64, infinite beyond the largest one."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _sums(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add one share after the other: `sum` has an order of its own on each machine."""
    return np.cumsum(shares)


def largest_first(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the places of the largest values, in descending order, those of equal ones as they come.

    Values that float32 holds, as logits are, are compared as whole numbers with their places: no two are
    equal, and a few of them are found without a sort of all.

    Args:
        values: Float64 [values].
        most: At most so many places are returned.
    """
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    if not np.array_equal(narrow, values):  # also where one is NaN
        return np.argsort(-values, kind="stable")[:most]
    bits = (narrow + np.float32(0)).view(np.int32)  # the two zeros are equal
    ascending = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)
    keys = (~ascending << 32) | np.arange(len(values))
    if most < len(keys):
        keys = np.partition(keys, most)[:most]
    keys.sort()
    return keys & 0xFFFFFFFF
