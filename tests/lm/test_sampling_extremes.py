"""Settings of any size draw what exact arithmetic says, without a warning."""

from __future__ import annotations

import warnings
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from intact.lm.sampling import Sampler, Sampling

WORDS, SLACK = 40, 1e-9
TEMPERATURES = (5e-324, 1e-320, 1e-308, 1e-300, 1e-30, 1e-3, 0.7, 1.0, 30.0, 1e30, 1e300, 1.7e308)
SIZES = (0.0, -0.5, 2.0, 1e3, -1e9, 1e30, -1e300, 1.7e308)
FACTORS = (1.0, 1.3, 5e-324, 1e-300, 0.5, 1e30, 1.7e308)
SHARES = (1.0, 0.9, 0.5, 1e-3, 1e-320, 1 - 2**-53)


def exact_values(logits, how, history, begin):
    """Return the logits that the settings make, as fractions."""
    values = [Fraction(float(logit)) for logit in logits]
    for token in set(history):
        factor = Fraction(how.repetition_penalty)
        values[token] = values[token] / factor if values[token] > 0 else values[token] * factor
    for token in set(history[begin:]):
        count = history[begin:].count(token)
        values[token] -= Fraction(how.presence_penalty) + count * Fraction(how.frequency_penalty)
    for token, bias in how.logit_bias.items():
        values[token] += Fraction(bias)
    return values


def exact_shares(values, temperature):
    """Return softmax to 60 digits, by the arithmetic of decimal numbers."""
    top = max(values)
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**15), 10**15
        context.traps = dict.fromkeys(context.traps, False)
        exponents = [(value - top) / Fraction(temperature) for value in values]
        powers = [(Decimal(e.numerator) / Decimal(e.denominator)).exp() for e in exponents]
        return [float(power / sum(powers)) for power in powers]


def tokens_of_a_number(values, how, uniform):
    """Return the tokens that a uniform number may stand for.

    Several may where the number is close to a border, and where shares are equal to float64.
    """
    order = sorted(range(len(values)), key=lambda token: -values[token])
    shares = exact_shares(values, how.temperature)
    if how.top_k:
        order = order[: how.top_k]
    total, nucleus = sum(shares[token] for token in order), []
    for token in order:
        if nucleus and sum(shares[t] for t in nucleus) / total >= how.top_p - SLACK:
            break
        nucleus.append(token)
    nucleus = [token for token in nucleus if shares[token] >= (how.min_p - SLACK) * shares[nucleus[0]]]
    in_vocabulary = nucleus if how.top_p < 1 or how.top_k else sorted(nucleus)
    total, before, drawn = sum(shares[token] for token in in_vocabulary), 0.0, set()
    for token in in_vocabulary:
        if before - SLACK <= uniform <= before + shares[token] / total + SLACK:
            drawn.add(token)
        before += shares[token] / total
    alike = [shares[token] for token in drawn]
    return {token for token in range(WORDS) if any(abs(shares[token] - share) <= SLACK for share in alike)}


def draw_settings(rng):
    """Return settings of all sizes."""
    pick = lambda values: float(values[rng.integers(len(values))])  # noqa: E731
    biases = {int(token): pick(SIZES) for token in rng.integers(0, WORDS, rng.integers(0, 4))}
    return Sampling(
        pick(TEMPERATURES), top_k=int(rng.choice([0, 0, 5])), top_p=pick(SHARES),
        min_p=pick((0.0, 0.0, 0.3, 1e-320)), repetition_penalty=pick(FACTORS), seed=int(rng.integers(2**31)),
        presence_penalty=pick(SIZES), frequency_penalty=pick(SIZES), logit_bias=biases,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(300))
def test_settings_of_any_size_draw_what_exact_arithmetic_says(seed):
    rng = np.random.default_rng(seed)
    how = draw_settings(rng)
    logits = rng.normal(0, rng.choice([1e-3, 5, 1e30]), WORDS).astype(np.float32)
    history = [int(token) for token in rng.integers(0, WORDS, rng.integers(0, 12))]
    begin = int(rng.integers(0, len(history) + 1))
    values = exact_values(logits, how, history, begin)
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([how.seed, 0])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler = Sampler(how)
        for _ in range(4):
            token = sampler.choose(logits, history, begin=begin)
            assert token in tokens_of_a_number(values, how, random.random())


@pytest.mark.parametrize("temperature", TEMPERATURES[:5])
def test_a_tiny_temperature_takes_the_largest_logit(temperature):
    logits = np.random.default_rng(0).normal(0, 5, 1000).astype(np.float32)
    allowed = np.arange(1000) % 3 > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Sampler(Sampling(temperature)).choose(logits, []) == logits.argmax()
        assert Sampler(Sampling(temperature)).choose(logits, [], allowed) == (logits - 99 * ~allowed).argmax()


def test_a_huge_bias_or_penalty_keeps_the_differences_of_logits():
    logits = np.array([1, 2, 3, 3.5], np.float32)
    biased = Sampling(logit_bias={0: 1e308, 1: 1e308})
    assert Sampler(biased).choose(logits, []) == 1
    assert Sampler(Sampling(presence_penalty=1e308)).choose(logits, [0, 1, 2, 3]) == 3
    assert Sampler(Sampling(frequency_penalty=-1.7e308)).choose(logits, [0, 1, 1, 0, 2]) == 1
    assert Sampler(Sampling(repetition_penalty=5e-324)).choose(logits, [0, 1]) == 1
