"""Scores a model by the user's metric, or by its agreement with the float model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine
from intact.errors import QuantValueError
from intact.ptq.measure import HoldoutSample, has_same_top1, has_top1

Score = Callable[[Engine], float]
"""Of a model that runs: the larger the better."""


def check_score(value: Any) -> float:
    """Convert the result of an evaluation to a finite number.

    Raises:
        QuantValueError: It is none, or not finite.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not isfinite(number):
        raise QuantValueError(
            "evaluate", f"{value!r:.60}", "a finite number, the larger the better",
            "return the metric: 91.7, for example",
        )  # fmt: skip
    return number


class Agreement:
    """Measures how far a model agrees with the float model, in percent.

    Outputs [rows, scores] count rows whose largest value stays where float has it; others the cosine of
    float's and theirs, its mean over the first axis. The least over the outputs counts.

    Args:
        runs: With the float model's outputs.
    """

    key = "agreement"

    def __init__(self, runs: Sequence[HoldoutSample]) -> None:
        self._runs = runs

    def __call__(self, engine: Engine) -> float:
        agreements: dict[str, list[NDArray[np.float64]]] = {}
        for sample in self._runs:
            outputs = engine.run(sample.feeds)
            for name, want in sample.outputs.items():
                if want.dtype.kind == "f" and want.size:
                    agreements.setdefault(name, []).append(_agreements(outputs[name], want))
        return 100 * min((float(np.concatenate(rows).mean()) for rows in agreements.values()), default=1.0)


def _agreements(got: NDArray, want: NDArray) -> NDArray[np.float64]:
    """Return the agreement of each row, 1 at best."""
    if got.shape != want.shape:
        return np.zeros(1)
    if has_top1(want):
        return has_same_top1(got, want).astype(np.float64)
    rows = len(want) if want.ndim > 1 else 1
    finite = np.isfinite(want)
    a, b = (np.where(finite, np.nan_to_num(x.astype(np.float64)), 0).reshape(rows, -1) for x in (got, want))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    same = (a == b).all(1)
    return np.where(same, 1.0, (a * b).sum(1) / np.where(norms > 0, norms, 1))
