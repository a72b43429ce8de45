"""The last stages, and once more with what a budget of time is worth: 16 bits, and layers in float."""

from __future__ import annotations

from dataclasses import replace

from intact.errors import UnsupportedError
from intact.ptq.bias_room import with_room_for_biases
from intact.ptq.choose import label, with_candidates
from intact.ptq.evaluator import relative, worst
from intact.ptq.float_layers import in_float
from intact.ptq.predicted_time import PredictedTime, shapes_of
from intact.ptq.sixteen import Unit, raised, units_of
from intact.ptq.stages import STAGES, run
from intact.ptq.state import State
from intact.ptq.unit_groups import Form, UnitTrials, within
from intact.ptq.wide_layers import WideUnits, with_wide_inputs

GOOD_DB = 40.0
"""Signal to quantization noise of an output above which nothing is looked for: an error of 1%."""

_ENOUGH_DB = 30.0  # an error of 3%: below, time is worth less
_HALVES, _HALVES_POOR = 0.1, 0.3  # of the time: what takes more must halve the error for each such part
_WORTH = 0.5  # of the error before: what a proposal must get below, as measured


def quantized(state: State) -> State:
    """`state` behind all stages; once more with what helps where outputs are poor."""
    at = [stage.name for stage in STAGES].index("pairs")
    before = run(state, STAGES[:at])
    after = run(before, STAGES[at:])
    proposed = with_budget_spent(before, after)
    if proposed is None:
        return after
    again = run(proposed, STAGES[at:])
    return again if is_worth_it(after, again) else after


def is_worth_it(before: State, after: State) -> bool:
    """Whether the quantized model `after` is clearly better than `before`."""
    return _error(after) <= _WORTH * _error(before)


def _error(state: State) -> float:
    return relative(state.errors[label(state)])


def with_budget_spent(before: State, after: State) -> State | None:
    """`before` with 16 bits for some activations and some layers in float.

    None where `after` is good enough, or nothing in the budget helps.

    Args:
        before: In front of the pairs.
        after: The same model with its pairs, and its errors on the held runs.
    Returns:
        In front of the pairs, too; whole ranges and those that `after` has are to be compared again.
    """
    budget = before.settings.float_budget
    if not budget or not after.errors:
        return None
    least = worst(after.errors[label(after)])
    if least >= GOOD_DB:
        return None
    wide = WideUnits(before) if before.settings.may_widen else None
    predicted = PredictedTime(before.model, before.placement, shapes_of(before.model, before.runs[0].feeds))
    trials = UnitTrials(before, after, predicted, wide)
    units = [
        unit for unit in units_of(before)
        if min(trials.time([unit], "16 bits"), trials.time([unit], "float")) <= budget
    ]  # fmt: skip
    if not units:
        return None
    groups = trials.measured(units)
    chosen = within(budget, groups, _HALVES if least >= _ENOUGH_DB else _HALVES_POOR)
    why: dict[Form, dict[Unit, str]] = {"16 bits": {}, "float": {}}
    for group, form in chosen:
        why[form] |= dict.fromkeys(group.units, group.reason(least, form))
    return _with_forms(before, after, why)


def _with_forms(before: State, after: State, why: dict[Form, dict[Unit, str]]) -> State | None:
    """`before` with units in other forms; None where there are none, or would be no others."""
    state = before
    if why["16 bits"]:
        try:
            state = with_wide_inputs(raised(state), why["16 bits"])
        except UnsupportedError:  # of an operator that has no form in an opset with 16 bits
            return None
    if why["float"]:
        state = in_float(state, why["float"])
    if state is before or not state.activations:  # a model that is float throughout is not what was asked for
        return None
    state = with_candidates(state)
    again = {name: ranges for name, ranges in state.configurations.items() if name in (after.chosen, "max")}
    state = replace(state, configurations=again or state.configurations)
    return with_room_for_biases(state) or state
