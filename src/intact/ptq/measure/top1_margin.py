"""Top-1 agreement: predicts from margins how many rows keep their largest score after quantization.

Only outputs of rank 2 with two columns or more have a largest score that is an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import erf, exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray

LEAST_ROWS = 16
"""Of how many rows margins must be known to foretell anything."""

_RIVALS = 4
"""Number of scores behind the largest from which the noise of a margin is estimated."""

_SMALL = 0.2
"""The part of the margins, the smallest, of which only the end is believed: they lie evenly below it."""

_LEAST_PROBABILITY = 2.0**-20
"""Probability whose logarithm replaces those of all smaller ones, which often share one code with 0."""


def has_top1(scores: NDArray) -> bool:
    """Return whether `scores` is a real output [rows, scores] with two columns or more."""
    return scores.dtype.kind == "f" and scores.ndim == 2 and scores.shape[1] > 1


@dataclass(frozen=True)
class Top1Agreement:
    """Counts the rows of an output that keep their largest score; counts of several runs add up.

    Attributes:
        same: The rows whose largest score is where float has it.
        rows: All rows that are finite in float.
        noise: The sum of squared errors of the differences between the largest score and the next ones.
        pairs: The number of these differences.
    """

    same: int = 0
    rows: int = 0
    noise: float = 0.0
    pairs: int = 0

    def __add__(self, other: Top1Agreement) -> Top1Agreement:
        return Top1Agreement(
            self.same + other.same,
            self.rows + other.rows,
            self.noise + other.noise,
            self.pairs + other.pairs,
        )


@dataclass(frozen=True)
class Top1Reference:
    """Holds the float model's scores of one output in one run.

    Attributes:
        scores: The output [rows, scores].
        finite: Which rows are; the others do not count.
        order: Where the largest score of each row is, and those behind it, int64 [rows, 2 to 5].
        probable: Whether every row adds up to 1: errors are then those of logarithms.
        ahead: How far the first of these scores is ahead of the others, float64 [rows, 1 to 4].
    """

    scores: NDArray
    finite: NDArray[np.bool_]
    order: NDArray[np.int64]
    probable: bool
    ahead: NDArray[np.float64]

    @classmethod
    def of(cls, scores: NDArray) -> Top1Reference:
        """Build the reference of `scores`, an output that `has_top1`."""
        finite = np.isfinite(scores).all(1)
        order, probable = _largest(scores, _RIVALS + 1), _are_probabilities(scores[finite])
        ahead = _differences(np.take_along_axis(scores, order, 1), probable)
        return cls(scores, finite, order, probable, ahead)

    def compare(self, got: NDArray) -> Top1Agreement:
        """Compare `got` with the reference; no row agrees where shapes differ."""
        rows = int(self.finite.sum())
        if got.shape != self.scores.shape:
            return Top1Agreement(0, rows)
        finite = self.finite & np.isfinite(got).all(1)
        same = finite & has_same_top1(got, self.scores)
        errors = _differences(np.take_along_axis(got, self.order, 1), self.probable)[finite]
        errors -= self.ahead[finite]
        return Top1Agreement(int(same.sum()), rows, float((errors * errors).sum()), errors.size)


def has_same_top1(got: NDArray, want: NDArray) -> NDArray[np.bool_]:
    """Return which rows of `got` [rows, scores] are largest where `want` is; any of equals counts.

    Args:
        got: Shape [rows, scores].
        want: The float model's, of the same shape.
    Returns:
        bool [rows].
    """
    chosen = np.take_along_axis(want, got.argmax(1)[:, None], 1)[:, 0]
    return np.asarray(chosen == want.max(1))


def top1_references(outputs: Mapping[str, NDArray]) -> dict[str, Top1Reference]:
    """Build the reference of each output that has a top-1 score."""
    return {name: Top1Reference.of(array) for name, array in outputs.items() if has_top1(array)}


@dataclass
class Top1Margins:
    """Collects by how much the largest score of every row leads in the float model.

    Attributes:
        by_output: By output, float64 arrays [rows, 2]: how far it is ahead of the second, and of the third.
    """

    by_output: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)

    def add(self, outputs: Mapping[str, NDArray]) -> None:
        """Add the rows of one run."""
        for name, scores in outputs.items():
            if has_top1(scores):
                rows = scores[np.isfinite(scores).all(1)]
                ahead = _differences(np.take_along_axis(rows, _largest(rows, 3), 1), _are_probabilities(rows))
                two = np.full((len(rows), 2), np.inf)
                two[:, : ahead.shape[1]] = ahead
                self.by_output.setdefault(name, []).append(two)

    def merge(self, later: Top1Margins) -> None:
        """Add the rows of later runs."""
        for name, margins in later.by_output.items():
            self.by_output.setdefault(name, []).extend(margins)

    def predict_agreement(self, name: str, answers: Top1Agreement) -> float | None:
        """Predict the share of rows that keep their largest score; None where too little is known.

        The error of a difference has a normal distribution, as wide as `answers` had it, and an answer stays
        where the largest is still ahead of the second and of the third. Of few rows hardly any has a small
        margin, and chance says which: the smallest fifth counts as lying evenly between 0 and its end.

        Args:
            name: Of the output.
            answers: On runs of which the quantized model's outputs are known.
        """
        margins = np.concatenate(self.by_output.get(name) or [np.zeros((0, 2))])
        if len(margins) < LEAST_ROWS or not answers.pairs:
            return None
        if not answers.noise:
            return 1.0
        margins = margins[np.lexsort(margins.T[::-1])] / sqrt(answers.noise / answers.pairs)
        count = int(len(margins) * _SMALL)
        ahead = np.array([[_stays(second), _stays(third)] for second, third in margins])
        ahead[:count, 0] = _stays_below(margins[count, 0])
        return float(ahead.prod(1).mean())


def _stays(margin: float) -> float:
    """Return the probability that an error of standard deviation 1 does not exceed `margin`."""
    return 0.5 + 0.5 * erf(margin / sqrt(2))


def _stays_below(end: float) -> float:
    """Return the mean of `_stays` between 0 and `end`: its integral by parts."""
    return _stays(end) - (1 - exp(-end * end / 2)) / (end * sqrt(2 * pi)) if end else 0.5


def _largest(scores: NDArray, count: int) -> NDArray[np.int64]:
    """Return the indices of the `count` largest scores of each row, largest first."""
    count = min(count, scores.shape[1])
    candidates = np.argpartition(-scores, count - 1, 1)[:, :count]
    order = np.argsort(-np.take_along_axis(scores, candidates, 1), 1, kind="stable")
    return np.take_along_axis(candidates, order, 1)


def _are_probabilities(scores: NDArray) -> bool:
    """Return whether every row adds up to 1, as behind a Softmax; its errors grow with the probability."""
    return bool((scores >= 0).all() and (abs(scores.sum(1) - 1) < 1e-3).all())


def _differences(ordered: NDArray, log: bool) -> NDArray[np.float64]:
    """Return how far the first column leads each other one; with `log`, the difference of logarithms."""
    real = ordered.astype(np.float64)
    if log:
        real = np.log(np.maximum(real, _LEAST_PROBABILITY))
    return real[:, :1] - real[:, 1:]
