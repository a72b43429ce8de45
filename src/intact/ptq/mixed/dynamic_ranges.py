"""Chooses which linear layers get the ranges of their inputs while the model runs, by measured errors.

All static and all dynamic are measured on the hold-out samples. Where dynamic ranges are better, the layers
that lose most with static ones for what dynamic ones take more get them, until every output comes within
`NEAR_DB` of the better of both (docs/decisions/0068-dynamic-ranges.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from intact.graph import Model
from intact.ptq.analysis.partial_quantization import grids_of
from intact.ptq.analysis.sensitivity_trials import Sweep, Trial
from intact.ptq.analysis.sensitivity_units import screen_groups
from intact.ptq.budget_search import BudgetProgram
from intact.ptq.measure.output_errors import Evaluator, lowest_sqnr
from intact.ptq.measure.quantization_state import State
from intact.ptq.mixed.precision_search import RUNS, TRIALS
from intact.ptq.mixed.predicted_time import PredictedTime, predict_time
from intact.ptq.mixed.tried_states import TriedState
from intact.ptq.stages.choose_ranges import least_sqnr, least_unseen_sqnr, with_candidates_again
from intact.ptq.stages.dynamic_layers import (
    DynamicGroup,
    dynamic_groups,
    with_dynamic_layers,
    write_dynamic_layers,
)

NEAR_DB = 0.5
"""So near to the better of all static and all dynamic every output has to come."""

_UNSEEN_DB = 3.0
"""Loss on unseen samples that is put down to ranges of half of the data, not to static ranges."""

_CHEAP = 0.03
"""Of the model's time: what all dynamic layers take more together without a search for fewer of them."""


@dataclass(frozen=True)
class _Part:
    """Holds neighbouring groups with the error that their static ranges leave, and the price of dynamic ones.

    Attributes:
        groups: Which.
        error: Of the outputs, with them alone quantized, statically.
        time: What dynamic ranges take more, as a part of the model's time.
    """

    groups: tuple[DynamicGroup, ...]
    error: float
    time: float


class DynamicChoice(NamedTuple):
    """Holds the states in front of the pairs and behind the last stages, with dynamic ranges or without.

    Attributes:
        before, after: The states.
        codes: A quantized model that has the codes of all layers that can have dynamic ranges; None: there
            are none, or nothing is measured.
    """

    before: State
    after: State
    codes: Model | None = None


def choose_dynamic_ranges(before: State, after: State) -> DynamicChoice:
    """Return `before` and `after` with dynamic ranges where these pay, or as they are.

    Args:
        before: In front of the pairs.
        after: Behind the last stages, with its errors on the hold-out samples.
    """
    groups = dynamic_groups(before) if before.settings.may_be_dynamic else []
    is_asked_for = before.settings.dynamic_ranges is True
    if not groups or not (is_asked_for or after.errors):
        return DynamicChoice(before, after)
    reason = "they were asked for" if is_asked_for else _reason(static_db := _ratio(after))

    def with_groups(
        chosen: Sequence[DynamicGroup], codes: TriedState | None = None
    ) -> tuple[State, TriedState]:
        proposed = with_candidates_again(
            with_dynamic_layers(before, dict.fromkeys(chosen, reason)), after.chosen
        )
        model = None if codes is None else codes.model
        return proposed, TriedState(replace(proposed, dynamic_codes=model), after)

    proposed, every = with_groups(groups)
    if is_asked_for:
        return DynamicChoice(proposed, every.finish())
    # Unseen samples are few, and say alone where dynamic ranges do not pay.
    if _unseen_ratio(every) - NEAR_DB <= static_db or (goal := _ratio(every) - NEAR_DB) <= static_db:
        return DynamicChoice(before, after, every.model)
    predicted = predict_time(before)
    if predicted.dynamic_difference(_layers_of(groups)) <= _CHEAP:
        return DynamicChoice(proposed, every.finish(keeps_ranges=True), every.model)
    parts = _measure_parts(before, after, groups, predicted)
    chosen = _least_parts(parts, 10 ** (-goal / 10))
    if len(chosen) < len(parts):
        fewer, some = with_groups([group for part in chosen for group in part.groups], every)
        if _ratio(some) >= goal:
            return DynamicChoice(fewer, some.finish(keeps_ranges=True), every.model)
    return DynamicChoice(proposed, every.finish(keeps_ranges=True), every.model)


def sqnr_without_pairs(before: State, codes: Model) -> float:
    """Return the ratio of the worst output in dB with dynamic ranges of all linear layers, and no pairs.

    That is what tools give that quantize weights and the inputs of such layers alone.

    Args:
        before: In front of the pairs.
        codes: See `DynamicChoice`.
    """
    state = with_dynamic_layers(before, dict.fromkeys(dynamic_groups(before), "")).with_own_model()
    written = write_dynamic_layers(replace(state, dynamic_codes=codes))
    assert written is not None, "there are groups"
    runs = [sample for half in before.halves for sample in half.runs] or before.runs
    return lowest_sqnr(Evaluator(written.model, runs).errors())


def _ratio(tried: State | TriedState) -> float:
    """Return the signal to quantization noise ratio of the worst output, in dB, on samples to come.

    Ranges of half of the data say less than those of all: `_UNSEEN_DB` of what unseen samples lose is theirs.
    """
    if isinstance(tried, TriedState):
        return min(tried.least_sqnr, _unseen_ratio(tried))
    return min(least_sqnr(tried), least_unseen_sqnr(tried) + _UNSEEN_DB)


def _unseen_ratio(tried: TriedState) -> float:
    return tried.least_unseen_sqnr + _UNSEEN_DB


def _reason(static_db: float) -> str:
    return f"with static ranges an output has {static_db:.1f} dB"


def _layers_of(groups: Sequence[DynamicGroup]) -> list[str]:
    return [name for group in groups for name in group.layers]


def _measure_parts(
    before: State, after: State, groups: Sequence[DynamicGroup], predicted: PredictedTime
) -> list[_Part]:
    """Measure what static ranges lose in groups alone, or with neighbours: `TRIALS` trials at most."""
    sweep = Sweep(before.model, grids_of(before, after), before.runs[:RUNS])

    def measure(ranges: Sequence[range]) -> list[float]:
        reads = (frozenset().union(*(groups[index].reads for index in some)) for some in ranges)
        return sweep.measure([Trial(changed) for changed in reads])

    parts = list[_Part]()
    for screened in screen_groups(len(groups), TRIALS, measure):
        some = tuple(groups[screened.start : screened.stop])
        parts.append(_Part(some, screened.error, predicted.dynamic_difference(_layers_of(some))))
    return parts


def _least_parts(parts: Sequence[_Part], error: float) -> list[_Part]:
    """Return the parts that dynamic ranges save most error in for their time, until `error` is left.

    Half of it is left for what the sum does not say: weights, dynamic ranges, and tensors in no part.
    """
    rows = [{"static": (part.error, 0.0), "dynamic": (0.0, part.time)} for part in parts]
    program = BudgetProgram.of_rows(parts, ("static", "dynamic"), ("error", "time"), rows)
    left, chosen = sum(part.error for part in parts), list[_Part]()
    for step in program.upgrades("error", "time"):
        if left <= error / 2:
            break
        chosen.append(step.item)
        left -= step.gain
    return chosen
