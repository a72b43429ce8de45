"""`Guard`: computes some of the engine's runs in float, too, and says when they drop below the gate."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from intact.ort.policies import Policy
from intact.ort.trials.gate import Arrays, OutputErrors, Verdict, compare_outputs, describe_changes
from intact.ort.trials.largest_scores import LargestScores

WINDOW = 8
"""Guarded runs that are looked at together."""
_LEAST_WINDOW = 4
_WINDOW_SLACK_DB = 1.5
"""Decibels that so few runs may miss the gate by, which was measured on others."""
_RUN_SLACK_DB = 6.0
"""Decibels that one run alone may miss it by."""
_CHANGES = 1.5
"""Changed answers, by expectation, that are too few in guarded runs; beyond, twice the policy's share."""
_MOST_CHANGE_RUNS = 64
_ANSWER_GAP = 8
"""Runs between guarded ones while answers are still being counted."""
_LONG_SECONDS = 0.25
_SLOWNESS = 1.05
"""The engine's time relative to ONNX Runtime's, the median of a full window, from which on it is slower."""


@dataclass(frozen=True)
class GuardedRun:
    """Holds copies of a run of the engine.

    Attributes:
        inputs, outputs: Arrays by name.
        seconds: The time that the program waited for it.
    """

    inputs: Arrays
    outputs: Arrays
    seconds: float = 0.0


def levels_of(words: Sequence[str]) -> dict[str, float]:
    """Return mean squares by output from the words of a record: "0.25 name"."""
    pairs = (text.partition(" ") for text in words)
    return {name: float(level) for level, _, name in pairs}


class Guard:
    """Counts runs, and keeps the errors of those that were computed twice.

    The first runs after the swap are guarded more often: runs 1, 2, 4, 8 and so on.

    Args:
        rules: The program's policy.
        decibels: What the gate measured.
        logits: Outputs that a linear layer gives.
        levels: The mean squares of outputs in the runs that were watched. Errors of a run whose outputs are
            nearly zero, such as the probability of speech in silence, are compared with these.
    """

    def __init__(
        self,
        rules: Policy,
        decibels: float,
        logits: Collection[str] = (),
        levels: Mapping[str, float] | None = None,
    ) -> None:
        self._rules, self._logits, self._levels = rules, logits, levels or {}
        self._floor = min(rules.accuracy, decibels)
        self._next, self._gap = 1, 1
        self._longest_gap = rules.guard
        self._window: deque[dict[str, OutputErrors]] = deque(maxlen=WINDOW)
        self._scores: dict[str, deque[LargestScores]] = {}
        self._needs_answers = False
        self._metrics: deque[float] = deque(maxlen=WINDOW)
        self._ratios: deque[float] = deque(maxlen=WINDOW)

    def is_due(self, number: int) -> bool:
        """Return whether this run of the engine, counted from 1, is to be computed in float, too."""
        if number < self._next:
            return False
        self._next = number + self._gap
        self._gap = min(2 * self._gap, _ANSWER_GAP if self._needs_answers else self._longest_gap)
        return True

    def note_seconds(self, run: GuardedRun, seconds: float) -> None:
        """Compare the time of a run with that in float; guard less often where the latter is long."""
        self._longest_gap = int(self._rules.guard * min(10.0, max(1.0, seconds / _LONG_SECONDS)))
        if self._rules.speed > 0 and seconds > 0:
            self._ratios.append(run.seconds / seconds)

    @property
    def speedup(self) -> float | None:
        """ONNX Runtime's time divided by the engine's, the median of guarded runs; None: too few so far."""
        if len(self._ratios) < WINDOW:
            return None
        return round(1 / max(float(np.median(self._ratios)), 1e-9), 4)

    def check_speed(self) -> str:
        """Return why the engine has to go where it is slower than ONNX Runtime, "" where it may stay.

        The program waited for the engine's runs, while those in float had the lowest priority: what takes
        the machine's cores away makes float look slower, so that it never sends a fast engine away.
        """
        speedup = self.speedup
        if speedup is None or speedup * _SLOWNESS >= 1:
            return ""
        return f"{speedup:.2f} times as fast as ONNX Runtime in the program's own runs"

    def check(self, run: GuardedRun, reference: Arrays) -> str:
        """Compare a run with float; return why the engine has to go, "" where it may stay."""
        if self._rules.metric is not None:
            return self._check_metric(compare_outputs([(reference, run.outputs)], self._rules))
        errors: dict[str, OutputErrors] = {}
        for name, array in reference.items():
            errors[name] = OutputErrors(may_be_logits=name in self._logits)
            errors[name].add(array, run.outputs[name])
            self._scores.setdefault(name, deque(maxlen=_MOST_CHANGE_RUNS)).append(errors[name].scores)
        self._window.append(errors)
        if why := self._why(errors, _RUN_SLACK_DB):
            return why
        if any(self._decibels(name, output) < self._floor for name, output in errors.items()):
            self._next, self._gap = 0, 1  # suspicious: look at the next run
        if len(self._window) < _LEAST_WINDOW:
            return ""
        return self._why(self._sums(), _WINDOW_SLACK_DB) or self._count_changes()

    def _count_changes(self) -> str:
        """Return why the answers of the last guarded runs are too different, "" where they are not.

        More runs are guarded while there are fewer answers than the policy's share of changed ones tells.
        """
        enough = 1 / max(1 - self._rules.agreement, 1e-3)
        totals = [LargestScores().merge(scores) for scores in self._scores.values()]
        answers = sum(scores.changes()[1] for scores in totals)
        self._needs_answers = 0 < answers < enough
        why = describe_changes(totals, 2 * (1 - self._rules.agreement), _CHANGES)
        return f"{why} on inputs of the program" if why else ""

    def _check_metric(self, verdict: Verdict) -> str:
        self._metrics.append(verdict.decibels)
        mean = sum(self._metrics) / len(self._metrics)
        if mean >= self._rules.accuracy:
            return ""
        return verdict.why or f"{self._rules.metric_name} fell to {mean:.4g}"

    def _why(self, errors: dict[str, OutputErrors], slack: float) -> str:
        for name, output in errors.items():
            if output.mismatch:
                return f"output '{name}': {output.mismatch}"
            share = output.agreement
            is_equal = share is not None and share >= self._rules.agreement
            decibels = self._decibels(name, output)
            if decibels < self._floor - slack and not (is_equal and decibels >= self._floor / 2):
                return f"output '{name}' fell to {decibels:.1f} dB on inputs of the program"
        return ""

    def _decibels(self, name: str, output: OutputErrors) -> float:
        return output.decibels_at(self._levels.get(name, 0.0))

    def _sums(self) -> dict[str, OutputErrors]:
        """Return the errors of all runs in the window, summed up."""
        sums: dict[str, OutputErrors] = {}
        for errors in self._window:
            for name, output in errors.items():
                total = sums.setdefault(name, OutputErrors())
                total.signal += output.signal
                total.noise += output.noise
                total.elements += output.elements
                total.rows += output.rows
                total.equal_rows += output.equal_rows
                total.is_score &= output.is_score
        return sums
