"""Compare two language models on a text: perplexity, divergence, greedy answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine
from intact.engine.steps import BlockFloatLinear, BlockLinear, FloatLinear
from intact.errors import QuantValueError
from intact.lm.language_model import LanguageModel, log_probabilities
from intact.lm.sequence_cache import Tokens
from intact.numerics import dequantize_blocks
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
    """Return ``exp`` of the mean of ``-log p`` of the tokens that follow, over windows of a text.

    Args:
        model: Any.
        windows: Tokens of each window, int64 [length].
        progress: Draw a progress bar.
    """
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
    """Return, for each prompt, the first of `count` greedy tokens that differs; None where none does.

    Args:
        first, other: Models of one tokenizer.
        prompts: Texts or tokens.
        count: Tokens that follow each prompt.
    """
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

    Args:
        model: Whose tokenizer is used.
        text: Any.
        length: Tokens of each window.
        count: Windows, at most; None: all.
    Returns:
        int64 [length] each.
    Raises:
        QuantValueError: The text is shorter than one window.
    """
    most = len(text) if count is None else 16 * length * count  # characters: few tokens are longer
    return cut_windows(model.encode(text[:most]), length, count)


def cut_windows(tokens: Sequence[int], length: int, count: int | None = None) -> list[NDArray[np.int64]]:
    """Cut tokens into windows, as `token_windows` does.

    Args:
        tokens: Of the text.
        length: Tokens of each window.
        count: Windows, at most; None: all.
    Raises:
        QuantValueError: The text is shorter than one window.
    """
    ids = np.array(tokens)
    windows = [ids[start : start + length] for start in range(0, len(ids) - length + 1, length)][:count]
    if not windows:
        raise QuantValueError("text", f"{len(ids)} tokens", f"{length} or more", "give a longer one")
    return windows


@dataclass(frozen=True)
class LayerLoss:
    """Holds what one product loses.

    Attributes:
        name: Of its output, such as "3.q".
        bits: Of a code.
        error: Squared error of its output relative to its square, with the codes of the other model on inputs
            of the first.
        total: The same of the outputs of both models as they run: what layers in front lost comes on top.
    """

    name: str
    bits: int
    error: float
    total: float


def layer_losses(first: LanguageModel, other: LanguageModel, tokens: Tokens) -> list[LayerLoss]:
    """Measure the products of two models of one decoder, in their order.

    Args:
        first: With weights in floats; products of codes have no input to measure on, and are left out.
        other: With codes.
        tokens: Of a text.
    Returns:
        The products that both have.
    """
    ids = [int(token) for token in np.asarray(tokens)][: min(first.positions, other.positions)]
    plans = [model.engine.plan for model in (first, other)]
    taps = [model.engine.tap(_inputs(model.engine, ids)) for model in (first, other)]
    floats = {step.y: step for step in plans[0].steps if isinstance(step, FloatLinear)}
    losses = []
    constants = plans[1].constants
    for step in plans[1].steps:
        if not isinstance(step, BlockLinear | BlockFloatLinear):
            continue
        y = step.y
        if y not in floats or y not in taps[1]:
            continue
        x, wanted = taps[0][floats[y].x], taps[0][y].astype(np.float64)
        own = x.reshape(-1, x.shape[-1]) @ dequantize_blocks(step.weights(constants.__getitem__)).T
        if step.bias:
            own += constants[step.bias].astype(np.float32)
        square = max(float((wanted**2).sum()), 1e-300)
        errors = [
            float(((got.reshape(wanted.shape) - wanted) ** 2).sum()) / square for got in (own, taps[1][y])
        ]
        losses.append(LayerLoss(y.removesuffix(".product"), step.bits, *errors))
    return losses


def _inputs(engine: Engine, ids: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return the inputs of a prompt with nothing in front: logits of its last token are computed."""
    count = len(ids)
    values: dict[str, Any] = {
        "tokens": [list(ids)], "last": [count - 1], "total": count, "rows": [count - 1], "state_rows": [0],
    }  # fmt: skip
    arrays = {}
    for port in engine.inputs:
        if port.name in values:
            arrays[port.name] = np.array(values[port.name], port.dtype)
        else:
            shape = (1, int(port.shape[1]), count, int(port.shape[3]))
            arrays[port.name] = np.zeros(shape, port.dtype)
    return arrays
