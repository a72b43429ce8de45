"""Quantizes and scores choices in other processes, some of them before the search needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from intact.engine import compile
from intact.graph import Model, PicklableModel
from intact.job_pool import JobPool
from intact.ptq import quantize
from intact.ptq.mixed import Selection
from intact.ptq.scope import Settings
from intact.ptq.stages import NothingToQuantizeError
from intact.tuning.accuracy_score import Score, check_score

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
    """Quantize with `overrides`; return the float model where nothing is left to quantize."""
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
