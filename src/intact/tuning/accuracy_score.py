"""Scores a model by the user's metric, or by its agreement with the float model, also in other processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine, compile
from intact.errors import QuantValueError
from intact.graph import Model, PicklableModel
from intact.job_pool import JobPool
from intact.ptq import quantize
from intact.ptq.measure import HoldoutSample, has_same_top1, has_top1
from intact.ptq.mixed import Selection
from intact.ptq.scope import Settings
from intact.ptq.stages import NothingToQuantizeError

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


Overrides = Mapping[str, Any]


@dataclass
class ChoiceScorer:
    """Holds what all scoring jobs share.

    Attributes:
        model: Float.
        data: Calibration data.
        settings: Of `quantize`.
        score: The metric.
        threads: Of the engine.
    """

    model: PicklableModel
    data: Any
    settings: Settings
    score: Score
    threads: int | None


def quantize_choice(model: Model, data: Any, settings: Settings, overrides: Overrides) -> Model:
    """Quantize with `overrides`; return the float model where nothing is left to quantize.

    Args:
        model: Float.
        data: Calibration data.
        settings: Of `quantize`.
        overrides: Of the choice, by pattern.
    """
    arguments = {
        setting.name: getattr(settings, setting.name) for setting in fields(Settings) if setting.init
    }
    # The search itself decides what stays in float.
    arguments |= {"overrides": overrides or settings.overrides, "progress": False, "float_budget": 0.0}
    try:
        return quantize(model, data, **arguments.pop("options"), **arguments).model
    except NothingToQuantizeError:  # what moves data is quantized beside other layers alone
        return model


def score_choice(common: ChoiceScorer, overrides: Overrides) -> tuple[PicklableModel, float]:
    """Quantize a choice in a worker; return the model and its metric."""
    model = quantize_choice(common.model.model, common.data, common.settings, overrides)
    return PicklableModel(model), check_score(common.score(compile(model, threads=common.threads)))


class ParallelScorer:
    """Scores choices ahead of the search in a pool.

    Args:
        pool: Does the work; times are not measured there.
        scorer: What it needs.
        overrides: Of a choice.
        skipped: Whether the metric of a choice is known already.
    """

    def __init__(
        self,
        pool: JobPool,
        scorer: ChoiceScorer,
        overrides: Callable[[Selection], Overrides],
        is_known: Callable[[Selection], bool],
    ) -> None:
        settings = replace(scorer.settings, pool=None, progress=False)
        self._pool, self._scorer = pool, replace(scorer, settings=settings, threads=pool.threads)
        self._overrides, self._is_known = overrides, is_known
        self.results: dict[Selection, tuple[Model, float]] = {}

    def __call__(self, choices: Sequence[Selection]) -> None:
        """Score those of `choices` without a result; the search needs the first one now."""
        if not choices or choices[0] in self.results or self._is_known(choices[0]):
            return
        pending = [choice for choice in choices if choice not in self.results and not self._is_known(choice)]
        results = self._pool.map(score_choice, self._scorer, [self._overrides(choice) for choice in pending])
        for choice, (parcel, score) in zip(pending, results, strict=True):
            self.results[choice] = parcel.model, score
