"""Compares the engine's outputs with float's, and decides whether a program may get them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.ort.policies import Policy
from intact.ort.trials.largest_scores import LargestScores, is_distribution
from intact.signal_to_noise import signal_to_noise

Arrays = Mapping[str, NDArray[Any]]

LEAST_ROWS = 200
"""Rows that are needed before a share of equal largest scores says anything about 99.7%."""
LEAST_SCORE_DB = 12.0
"""Decibels below which equal largest scores are not enough: the scores themselves are read, too."""
GATE_CHANGES = 0.3
"""Changed answers, by expectation, that are too few to say anything about a share."""
_GATE_SHARE = 0.7
"""The part of the permitted changes that the gate lets pass: few runs do not tell a share exactly."""


@dataclass
class OutputErrors:
    """Sums up the errors of one output.

    Attributes:
        signal, noise: Sums of squares, of float's values and of the differences.
        elements: Finite values that `signal` sums up.
        rows, equal_rows: Of scores: rows, and those whose largest value is where float has it.
        is_score: Whether all rows so far were scores: not negative, with a sum of 1.
        mismatch: What else differs: shape, dtype, integers, NaN; "" for nothing.
        may_be_logits: Whether a linear layer gives the output.
        scores: Rows of scores, and what becomes of their largest ones.
    """

    signal: float = 0.0
    noise: float = 0.0
    elements: int = 0
    rows: int = 0
    equal_rows: int = 0
    is_score: bool = True
    mismatch: str = ""
    may_be_logits: bool = False
    scores: LargestScores = field(default_factory=LargestScores)

    @property
    def decibels(self) -> float:
        """Signal to noise in dB."""
        return self.decibels_at(0.0)

    def decibels_at(self, level: float) -> float:
        """Return signal to noise in dB of an output whose mean square is `level` where it is less here."""
        return signal_to_noise(max(self.signal, level * self.elements), self.noise)

    @property
    def agreement(self) -> float | None:
        """The share of rows whose largest score is equal; None where the output holds no scores."""
        return self.equal_rows / self.rows if self.is_score and self.rows else None

    def add(self, reference: NDArray[Any], candidate: NDArray[Any]) -> None:
        """Compare one run's output with float's."""
        if reference.shape != candidate.shape or reference.dtype != candidate.dtype:
            self.mismatch = (
                f"{candidate.dtype} {list(candidate.shape)} for {reference.dtype} {list(reference.shape)}"
            )
            return
        if reference.dtype.kind != "f":
            self._add_integers(reference, candidate)
            return
        left, right = reference.astype(np.float64), candidate.astype(np.float64)
        finite = np.isfinite(left)
        if not np.array_equal(left[~finite], right[~finite], equal_nan=True):
            self.mismatch = "NaN or infinities where float has none, or the other way round"
            return
        left, right = left[finite], right[finite]
        with np.errstate(over="ignore", invalid="ignore"):
            self.signal += float(np.sum(left * left))
            self.elements += left.size
            self.noise += float(np.sum((left - right) ** 2))
        if not math.isfinite(self.noise):
            self.mismatch = "NaN or infinities where float has none"
            return
        self._add_scores(reference, candidate)
        self.scores.add(reference, candidate, self.may_be_logits)

    def _add_integers(self, reference: NDArray[Any], candidate: NDArray[Any]) -> None:
        """Count equal elements: labels, token ids, booleans; each is a row of its own."""
        self.is_score = self.is_score and self.signal == 0
        self.rows += reference.size
        self.equal_rows += int(np.count_nonzero(reference == candidate))
        self.noise = float(self.rows - self.equal_rows)
        self.signal = float(self.rows)

    def _add_scores(self, reference: NDArray[Any], candidate: NDArray[Any]) -> None:
        if reference.ndim < 2 or reference.shape[-1] < 2 or not reference.size:
            self.is_score = False
            return
        rows = reference.reshape(-1, reference.shape[-1])
        if not is_distribution(rows):
            self.is_score = False
            return
        candidate_rows = candidate.reshape(rows.shape)
        self.rows += len(rows)
        self.equal_rows += int(np.count_nonzero(rows.argmax(axis=1) == candidate_rows.argmax(axis=1)))


@dataclass(frozen=True)
class Verdict:
    """Says whether outputs are close enough.

    Attributes:
        is_close: Whether they are.
        decibels: Of the worst output; inf where all are equal. With a metric: its number.
        agreement: The least share of equal largest scores; None where no output holds scores.
        why: What failed, in words; "" where nothing did.
    """

    is_close: bool
    decibels: float
    agreement: float | None = None
    why: str = ""


def compare_outputs(
    pairs: Sequence[tuple[Arrays, Arrays]], rules: Policy, logits: Collection[str] = ()
) -> Verdict:
    """Compare runs.

    Args:
        pairs: Of (outputs in float, outputs of the engine), by name.
        rules: What they must have.
        logits: Outputs that a linear layer gives.
    """
    if rules.metric is not None:
        return _by_metric(pairs, rules)
    return verdict_of(_sum_errors(pairs, logits), rules)


def count_changes(pairs: Sequence[tuple[Arrays, Arrays]], rules: Policy, logits: Collection[str] = ()) -> str:
    """Return how many answers change, in words; "" where these are few enough: arguments as above."""
    if rules.metric is not None:
        return ""
    scores = [output.scores for output in _sum_errors(pairs, logits).values()]
    return describe_changes(scores, _GATE_SHARE * (1 - rules.agreement), GATE_CHANGES)


def describe_changes(outputs: Iterable[LargestScores], share: float, few: float) -> str:
    """Return how many answers of all outputs change, in words; "" where few do.

    A reader of five letters may have an output for each.

    Args:
        outputs: The scores of each.
        share: Of the answers that may change, 0 to 1.
        few: Changes that say nothing yet.
    """
    counts = [scores.changes() for scores in outputs]
    changes, answers = (sum(column) for column in zip(*counts, strict=True)) if counts else (0.0, 0)
    if changes <= max(few, share * answers):
        return ""
    return f"about {changes:.1f} of {answers} largest scores move"


def _sum_errors(pairs: Sequence[tuple[Arrays, Arrays]], logits: Collection[str]) -> dict[str, OutputErrors]:
    errors: dict[str, OutputErrors] = {}
    for reference, candidate in pairs:
        for name, array in reference.items():
            output = errors.setdefault(name, OutputErrors(may_be_logits=name in logits))
            output.add(array, candidate[name])
    return errors


def verdict_of(errors: Mapping[str, OutputErrors], rules: Policy) -> Verdict:
    """Return the verdict on errors of all outputs."""
    decibels = min((output.decibels for output in errors.values()), default=math.inf)
    shares = [share for output in errors.values() if (share := output.agreement) is not None]
    failures = []
    for name, output in errors.items():
        if output.mismatch:
            failures.append(f"output '{name}': {output.mismatch}")
        elif not _is_close(output, rules):
            scores = "" if output.agreement is None else f", {output.agreement:.2%} of largest scores equal"
            failures.append(f"output '{name}' has {output.decibels:.1f} dB{scores}")
    collected = [output.scores for output in errors.values()]
    share = _GATE_SHARE * (1 - rules.agreement)
    if not failures and (why := describe_changes(collected, share, GATE_CHANGES)):
        failures.append(f"{decibels:.1f} dB, but {why}")
    return Verdict(not failures, decibels, min(shares, default=None), "; ".join(failures[:3]))


def _is_close(output: OutputErrors, rules: Policy) -> bool:
    if output.decibels >= rules.accuracy:
        return True
    share = output.agreement
    if share is None or output.rows < LEAST_ROWS:
        return False
    return share >= rules.agreement and output.decibels >= LEAST_SCORE_DB


def _by_metric(pairs: Sequence[tuple[Arrays, Arrays]], rules: Policy) -> Verdict:
    assert rules.metric is not None
    try:
        values = [float(rules.metric(reference, candidate)) for reference, candidate in pairs]
    except Exception as error:  # the program's own function: its errors must not reach a run
        return Verdict(False, -math.inf, None, f"{rules.metric_name} raised {type(error).__name__}: {error}")
    least = min(values, default=math.inf)
    if not least >= rules.accuracy:
        return Verdict(
            False, least, None, f"{rules.metric_name} is {least:.4g}, less than {rules.accuracy:g}"
        )
    return Verdict(True, least)
