"""The order of logits, and tokens drawn by their probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from intact.lm.sampling import Sampler, Sampling, largest_first


@pytest.mark.parametrize("seed", range(8))
def test_the_order_is_that_of_a_stable_sort(seed):
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(0, 3, 500), seed % 3).astype(np.float32).astype(np.float64)
    values[rng.integers(0, 500, 40)] = rng.choice([0.0, -0.0, -np.inf, np.inf, 1e-45, -1e-45], 40)
    if seed % 2:
        values[rng.integers(0, 500, 9)] /= 3  # no longer float32
    expected = np.argsort(-values, kind="stable")
    for most in (1, 7, 499, 500, 1000):
        np.testing.assert_array_equal(largest_first(values, most), expected[:most])


def test_what_is_no_number_comes_last():
    order = largest_first(np.array([1.0, np.nan, 3.0, np.nan, -np.inf]), 9)
    assert order.tolist() == [2, 0, 4, 1, 3]


@pytest.mark.parametrize("sampling", [{}, {"top_k": 3}, {"top_p": 0.8}, {"min_p": 0.2}])
def test_tokens_come_as_often_as_their_probabilities_say(sampling):
    logits = np.log(np.array([0.1, 0.4, 0.05, 0.25, 0.2], np.float32))
    places = {"top_k": [1, 3, 4], "top_p": [1, 3, 4], "min_p": [0, 1, 3, 4]}
    drawn = places[next(iter(sampling))] if sampling else [0, 1, 2, 3, 4]
    expected = np.zeros(5)
    expected[drawn] = np.exp(logits[drawn])
    sampler = Sampler(Sampling(1.0, seed=3, **sampling))
    counts = np.bincount([sampler.choose(logits, []) for _ in range(4000)], minlength=5)
    np.testing.assert_allclose(counts / 4000, expected / expected.sum(), atol=0.03)
    assert not counts[expected == 0].any()


def test_a_wide_nucleus_is_that_of_a_whole_sort():
    logits = np.random.default_rng(0).normal(0, 0.1, 5000).astype(np.float32)
    shares = np.exp(logits.astype(np.float64)) / np.exp(logits.astype(np.float64)).sum()
    order = np.argsort(-logits, kind="stable")
    nucleus = set(order[: int(np.searchsorted(np.cumsum(shares[order]), 0.5)) + 1].tolist())
    assert 1024 < len(nucleus) < 2500
    sampler = Sampler(Sampling(1.0, top_p=0.5))
    assert {sampler.choose(logits, []) for _ in range(3000)} <= nucleus


def test_only_allowed_tokens_are_drawn():
    logits, allowed = np.array([9, 1, 5, 1], np.float32), np.array([False, True, False, True])
    for sampling in (Sampling(), Sampling(1.0), Sampling(1.0, top_k=3), Sampling(0.5, top_p=0.9, min_p=0.1)):
        sampler = Sampler(sampling)
        assert {sampler.choose(logits, [1], allowed) for _ in range(50)} <= {1, 3}
