"""Compare two language models on a text: perplexity, divergence, greedy answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.lm.language_model import LanguageModel, log_probabilities
from intact.progress import Progress


@dataclass(frozen=True)
class ModelComparison:
    """Two models on the tokens of a text.

    Attributes:
        tokens: How many were compared.
        perplexity, other_perplexity: ``exp`` of the mean of ``-log p`` of the tokens that follow.
        kl: Mean Kullback-Leibler divergence of the other's probabilities from the first's, nats per token.
        kl_999: That of the worst token in a thousand.
        same_top: Share of tokens behind which both have the same most likely token.
        divergences: Of each token, float64 [tokens].
    """

    tokens: int
    perplexity: float
    other_perplexity: float
    kl: float
    kl_999: float
    same_top: float
    divergences: NDArray[np.float64]


def perplexity(model: LanguageModel, windows: Sequence[NDArray[np.int64]], progress: bool = False) -> float:
    """Return ``exp`` of the mean of ``-log p`` of the tokens that follow, over windows of a text."""
    with Progress("score", len(windows), progress) as bar:
        scores = [model.score(list(window)) for window in bar.over(list(windows))]
    return float(np.exp(-np.concatenate(scores).mean()))


def compare_models(
    first: LanguageModel, other: LanguageModel, windows: Sequence[NDArray[np.int64]], progress: bool = False
) -> ModelComparison:
    """Compare two models of one vocabulary on windows of a text.

    Args:
        first: The one that the other was made of.
        other: The other.
        windows: Tokens, [length] each, as `token_windows` makes them.
        progress: Show a progress bar.
    """
    divergences, tops, surprises = [], [], []
    with Progress("compare", len(windows), progress) as bar:
        for window in bar.over(list(windows)):
            wanted, got = (log_probabilities(model.logits(window)) for model in (first, other))
            divergences.append((np.exp(wanted) * (wanted - got)).sum(1))
            tops.append(wanted.argmax(1) == got.argmax(1))
            following = np.arange(len(window) - 1), window[1:]
            surprises.append([-wanted[following].mean(), -got[following].mean()])
    kl, means = np.concatenate(divergences), np.mean(surprises, axis=0)
    return ModelComparison(
        len(kl), float(np.exp(means[0])), float(np.exp(means[1])), float(kl.mean()),
        float(np.quantile(kl, 0.999)), float(np.concatenate(tops).mean()), kl,
    )  # fmt: skip


def first_flips(
    first: LanguageModel, other: LanguageModel, prompts: Sequence[str | Sequence[int]], count: int
) -> list[int | None]:
    """Return, for each prompt, the first of `count` greedy tokens that differs; None where none does."""
    flips: list[int | None] = []
    for prompt in prompts:
        a, b = (list(model.generate_tokens(prompt, max_tokens=count)) for model in (first, other))
        differing = [at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
        flips.append(differing[0] if differing else None if len(a) == len(b) else min(len(a), len(b)))
    return flips


def token_windows(
    model: LanguageModel, text: str, length: int = 512, count: int | None = None
) -> list[NDArray[np.int64]]:
    """Cut a text into windows of so many tokens.

    Raises:
        QuantValueError: The text is shorter than one window.
    """
    most = len(text) if count is None else 16 * length * count  # characters: few tokens are longer
    return cut_windows(model.encode(text[:most]), length, count)


def cut_windows(tokens: Sequence[int], length: int, count: int | None = None) -> list[NDArray[np.int64]]:
    """Cut tokens into windows, as `token_windows` does."""
    ids = np.array(tokens)
    windows = [ids[start : start + length] for start in range(0, len(ids) - length + 1, length)][:count]
    if not windows:
        raise QuantValueError("text", f"{len(ids)} tokens", f"{length} or more", "give a longer one")
    return windows
