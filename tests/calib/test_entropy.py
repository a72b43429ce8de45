"""The entropy method against a plain loop over candidates, parts and bins."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intact.calib.range_search import entropy_edge

FORMS = ("pytorch_quantization", "gtc2017")


def plain_divergence(bins, i, levels):
    """KL(P || Q) of clipping at edge i, written as the definition reads."""
    total = sum(bins)
    p = bins[:i]
    p[-1] += sum(bins[i:])
    mass, filled = [0.0] * levels, [0] * levels
    for j in range(i):
        part = j * levels // i
        mass[part] += bins[j]
        filled[part] += bins[j] > 0
    inside = sum(mass)
    terms = []
    for j in range(i):
        if p[j] == 0:
            continue
        if bins[j] == 0:
            return math.inf
        part = j * levels // i
        q = mass[part] / filled[part] / inside
        terms.append(p[j] / total * math.log(p[j] / total / q))
    return math.fsum(terms)


def plain_edge(counts, levels, form, start, stride):
    bins = [float(c) for c in counts]
    if form == "pytorch_quantization":
        bins[0] = bins[1]
    candidates = list(range(start, len(bins) + 1, stride))
    plain_divergences = [plain_divergence(bins, i, levels) for i in candidates]
    best = [
        i for i, kl in zip(candidates, plain_divergences, strict=True) if kl <= min(plain_divergences) + 1e-12
    ]
    return best[0] if form == "gtc2017" else best[-1]


def shapes(rng, bins=256):
    x = np.abs(rng.standard_normal(20_000))
    spread = {
        "half normal": x,
        "exponential": rng.exponential(size=20_000),
        "one outlier": np.append(x, 40.0),
    }
    spread["relu"] = np.maximum(rng.standard_normal(20_000), 0)
    spread["sparse"] = rng.choice([0.1, 0.5, 3.0], 1000)
    spread["heavy tail"] = np.abs(rng.standard_t(2, 20_000))
    return {k: np.histogram(v, bins, (0, v.max()))[0] for k, v in spread.items()}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("levels", "start", "stride"),
    [(128, 128, 1), (8, 16, 1), (16, 10, 3), (100, 128, 7)],
    ids=["int8", "int4", "int5-stride3", "100-levels"],
)
def test_the_chosen_edge_is_that_of_the_plain_loop(form, levels, start, stride, rng):
    for name, counts in shapes(rng).items():
        before = counts.copy()
        assert entropy_edge(counts, levels, form, start, stride) == plain_edge(
            counts, levels, form, start, stride
        ), name
        assert (counts == before).all(), "the counts stay as they are"


@pytest.mark.slow
@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
def test_the_chosen_edge_is_that_of_the_plain_loop_with_2048_bins(unsigned, rng):
    counts = np.histogram(np.abs(rng.standard_normal(100_000)), 2048)[0]
    levels = 128 * (1 + unsigned)
    expected = plain_edge(counts, levels, FORMS[0], 128, 16)
    assert entropy_edge(counts, levels, FORMS[0], 128, 16) == expected


@given(
    st.lists(st.integers(0, 50) | st.just(0), min_size=24, max_size=48),
    st.integers(2, 9),
    st.integers(10, 20),
    st.sampled_from(FORMS),
)
def test_arbitrary_counts(counts, levels, start, form):
    counts = np.array(counts, np.int64)
    chosen = entropy_edge(counts, levels, form, start, 1)
    recorded = counts[1:] if form == "pytorch_quantization" else counts
    if not recorded.any():
        assert chosen is None
    else:
        assert chosen == plain_edge(counts, levels, form, start, 1)


@pytest.mark.parametrize(
    ("counts", "levels", "start"),
    [(np.ones(128, int), 128, 10), (np.ones(50, int), 8, 51), (np.zeros(50, int), 8, 10)],
    ids=["as many levels as bins", "no candidate", "no counts"],
)
def test_nothing_to_choose(counts, levels, start):
    assert entropy_edge(counts, levels, FORMS[0], start, 1) is None


def test_zeros_after_a_relu_do_not_drive_the_result(rng):
    counts = np.histogram(np.abs(rng.standard_normal(50_000)), 512)[0]
    zeros = counts.copy()
    zeros[0] += 10**9
    assert entropy_edge(zeros, 128, FORMS[0], 128, 1) == entropy_edge(counts, 128, FORMS[0], 128, 1)


def test_of_equals_the_last_wins_or_the_first_as_published():
    counts = np.zeros(64, np.int64)
    counts[:16] = 5
    # Every edge from 16 on keeps all of the counts in parts of equal counts.
    assert entropy_edge(counts, 4, "pytorch_quantization", 16, 16) == 64
    assert entropy_edge(counts, 4, "gtc2017", 16, 16) == 16
