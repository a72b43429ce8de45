"""What quantization does to a model's outputs, measured on a few held runs without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.graph import Model, Session
from intact.ptq.sample import Held
from intact.ptq.workers import THREADS, in_order

Errors = dict[str, tuple[float, float]]
"""(sum of squared errors, sum of squares) by output."""

_FIX = "quantize for another opset or with other formats, or exclude the node that it names"


class Evaluator:
    """Runs a quantized model on held runs, again and again with other ranges or biases.

    Args:
        model: With Q/DQ pairs.
        runs: With the float model's outputs.
        overridable: Names of initializers that `errors` may be given.
    """

    def __init__(self, model: Model, runs: Sequence[Held], overridable: Sequence[str] = ()) -> None:
        self._runs = runs
        # Constants are computed once, not in every run of every configuration; the pairs stay as they are.
        self._session = Session(model, overridable=overridable, folded=True, threads=THREADS, fix=_FIX)

    def best(self, candidates: Mapping[str, Mapping[str, NDArray]]) -> tuple[str, dict[str, Errors]]:
        """The candidate that changes the outputs least, the first of equals; and the errors of all.

        All are measured on a quarter of the runs, at least two, and the better two of them on all.

        Args:
            candidates: Values of overridable initializers, by the candidate's name.
        """
        names = _distinct(candidates)
        distinct = list(dict.fromkeys(names.values()))
        few, runs = max(2, len(self._runs) // 4), self._runs
        errors: dict[str, Errors] = {name: {} for name in distinct}
        if len(distinct) > 2 and few < len(runs):
            errors = {name: self._add({}, candidates[name], runs[:few]) for name in distinct}
            distinct = sorted(distinct, key=lambda name: relative(errors[name]))[:2]
            runs = runs[few:]
        errors |= {name: self._add(errors[name], candidates[name], runs) for name in distinct}
        chosen = min(distinct, key=lambda name: (relative(errors[name]), list(names).index(name)))
        return chosen, {name: errors[same] for name, same in names.items()}

    def errors(self, overrides: Mapping[str, NDArray] | None = None) -> Errors:
        """(sum of squared errors, sum of squares) of every real output, over all runs.

        An output whose shape changed counts as lost altogether.
        """
        return self._add({}, overrides or {}, self._runs)

    def _add(self, sums: Errors, overrides: Mapping[str, NDArray], runs: Sequence[Held]) -> Errors:
        """`sums` and the errors of `runs`, added in their order."""
        sums = dict(sums)
        for found in in_order(lambda held: self._of_run(overrides, held), runs):
            for name, (error, square) in found.items():
                before = sums.get(name, (0.0, 0.0))
                sums[name] = before[0] + error, before[1] + square
        return sums

    def _of_run(self, overrides: Mapping[str, NDArray], held: Held) -> Errors:
        found: Errors = {}
        for name, got in self._session.stream({**overrides, **held.feeds}):
            want = held.outputs.get(name)
            if want is not None and want.dtype.kind == "f":
                found[name] = _squares(got, want)
        return found


def _distinct(candidates: Mapping[str, Mapping[str, NDArray]]) -> dict[str, str]:
    """For each candidate the first one that is the same."""
    seen: dict[bytes, str] = {}
    return {
        name: seen.setdefault(b"".join(a.tobytes() for a in values.values()), name)
        for name, values in candidates.items()
    }


def relative(errors: Errors) -> float:
    """One number to compare by: the mean over the outputs of squared error relative to square."""
    parts = [error / square if square else error for error, square in errors.values()]
    return float(np.mean(parts)) if parts else 0.0


def sqnr(errors: Errors) -> dict[str, float]:
    """Signal to quantization noise ratio of every output, in dB; inf where nothing is lost."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            name: float(10 * np.log10(np.float64(square) / np.float64(error))) if error else float("inf")
            for name, (error, square) in errors.items()
        }


def _squares(got: NDArray, want: NDArray) -> tuple[float, float]:
    real = want.astype(np.float64)
    finite = np.isfinite(real)  # a mask of -inf, for example, says nothing about accuracy
    real = np.where(finite, real, 0)
    square = float(np.sum(real * real))
    if got.shape != want.shape:
        return square, square
    difference = np.where(finite, np.nan_to_num(got.astype(np.float64), posinf=0, neginf=0) - real, 0)
    return float(np.sum(difference * difference)), square
