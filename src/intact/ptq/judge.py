"""What quantization does to a model's outputs, measured on a few held runs without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.graph import Model, Session
from intact.ptq.collect import Held


class Judge:
    """Runs a quantized model on held runs, again and again with other ranges or biases.

    Args:
        model: With Q/DQ pairs.
        runs: With the float model's outputs.
        overridable: Names of initializers that `errors` may be given.
    """

    def __init__(self, model: Model, runs: Sequence[Held], overridable: Sequence[str] = ()) -> None:
        self._runs = runs
        # Constants are computed once, not in every run of every configuration; the pairs stay as they are.
        self._session = Session(model, overridable=overridable, folded=True)

    def errors(self, overrides: Mapping[str, NDArray] | None = None) -> dict[str, tuple[float, float]]:
        """(sum of squared errors, sum of squares) of every real output, over all runs.

        An output whose shape changed counts as lost altogether.
        """
        sums: dict[str, tuple[float, float]] = {}
        for held in self._runs:
            for name, got in self._session.stream({**(overrides or {}), **held.feeds}):
                want = held.outputs.get(name)
                if want is None or want.dtype.kind != "f":
                    continue
                error, square = _squares(got, want)
                before = sums.get(name, (0.0, 0.0))
                sums[name] = before[0] + error, before[1] + square
        return sums


def relative(errors: Mapping[str, tuple[float, float]]) -> float:
    """One number to compare by: the mean over the outputs of squared error relative to square."""
    parts = [error / square if square else error for error, square in errors.values()]
    return float(np.mean(parts)) if parts else 0.0


def sqnr(errors: Mapping[str, tuple[float, float]]) -> dict[str, float]:
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
