"""Of how many rows codes change the answer: told from margins and noise, and found to be so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from intact.ptq.measure.top1_margin import Top1Agreement, Top1Margins, Top1Reference, has_same_top1

NAME = "scores"


def softmax(logits: NDArray) -> NDArray:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return (powers / powers.sum(1, keepdims=True)).astype(np.float32)


def classifier(rng: np.random.Generator, rows: int, classes: int = 10) -> NDArray:
    """Logits whose margins are as a classifier's: most large, few near 0."""
    logits = rng.normal(size=(rows, classes))
    logits[np.arange(rows), rng.integers(0, classes, rows)] += rng.gamma(2, 2, rows)
    return logits.astype(np.float32)


def foretold(want: NDArray, got: NDArray, holdout_rows: int = 8) -> float | None:
    margins = Top1Margins()
    for row in want:
        margins.add({NAME: row[None]})
    return margins.predict_agreement(NAME, Top1Reference.of(want[:holdout_rows]).compare(got[:holdout_rows]))


@pytest.mark.parametrize("noise", [0.03, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("probabilities", [False, True])
def test_what_is_foretold_of_a_few_rows_happens_to_many(noise: float, probabilities: bool) -> None:
    rng = np.random.default_rng(3)
    messages, happened = [], []
    for _ in range(40):
        want = classifier(rng, 128)
        got = want + rng.normal(size=want.shape).astype(np.float32) * noise
        happened.append(has_same_top1(got, want).mean())
        messages.append(foretold(*(softmax(a) for a in (want, got)) if probabilities else (want, got)))
    assert np.mean(messages) == pytest.approx(np.mean(happened), abs=0.01)
    lost = 1 - np.mean(happened)
    assert np.std(messages) < max(0.01, 0.4 * lost)  # although each saw the noise of eight rows alone


def test_more_noise_keeps_fewer() -> None:
    rng = np.random.default_rng(0)
    want = classifier(rng, 64)
    error = rng.normal(size=want.shape).astype(np.float32)
    shares = [foretold(want, want + error * noise) for noise in (0, 0.01, 0.1, 1, 100)]
    assert shares[0] == 1 and shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(0.25, abs=0.02)  # ahead of one by chance, and of another


def test_the_order_of_the_data_tells_nothing() -> None:
    rng = np.random.default_rng(1)
    want = classifier(rng, 50)
    answers = Top1Agreement(8, 8, 0.4, 32)
    first, second, third = Top1Margins(), Top1Margins(), Top1Margins()
    first.add({NAME: want})
    for row in want[::-1]:
        second.add({NAME: row[None]})
    third.add({NAME: want[20:]})
    rest = Top1Margins()
    rest.add({NAME: want[:20]})
    third.merge(rest)
    shares = {item.predict_agreement(NAME, answers) for item in (first, second, third)}
    assert len(shares) == 1 and 0.5 < shares.pop() < 1


def test_few_rows_and_unknown_noise_foretell_nothing() -> None:
    rng = np.random.default_rng(2)
    want = classifier(rng, 16)
    assert foretold(want[:15], want[:15] + 0.1) is None
    assert foretold(want, want + 0.1) == pytest.approx(1)  # the same for every score
    assert Top1Margins().predict_agreement(NAME, Top1Agreement(8, 8, 1, 8)) is None
    margins = Top1Margins()
    margins.add({NAME: want, "image": want[:, None], "one": want[:, :1], "ids": want.astype(np.int64)})
    assert list(margins.by_output) == [NAME] and margins.predict_agreement(NAME, Top1Agreement(0, 16)) is None


def test_rows_that_are_not_finite_and_ties_do_not_end_it() -> None:
    want = np.zeros((20, 3), np.float32)
    want[:5] = np.nan
    want[5:10, 1] = np.inf
    got = want.copy()
    got[12] = np.nan
    answers = Top1Reference.of(want).compare(got)
    assert (answers.same, answers.rows, answers.noise) == (9, 10, 0)
    assert Top1Reference.of(want).compare(got[:, :2]) == Top1Agreement(0, 10)
    margins = Top1Margins()
    margins.add({NAME: want})
    margins.add({NAME: want[10:]})
    share = margins.predict_agreement(NAME, Top1Agreement(8, 8, 8.0, 8))
    assert share is not None and math.isclose(share, 0.25)  # every margin is 0
