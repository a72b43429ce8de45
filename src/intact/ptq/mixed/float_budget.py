"""The last stages, and once more with 16 bits and layers in float: for a budget, or until it is enough.

Tensors are quantized alone, and what takes the most error off for its predicted time is raised first
(`unit_groups`). A budget is spent where an output is below `POOR_DB`, on what is worth it; ``bits16="auto"``
takes as little as brings every output to `GOOD_DB`, found by bisection (docs/decisions/0043-two-bytes.md).
On what recurrent layers read the budget is spent below `GOOD_DB` already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from intact.errors import UnsupportedError
from intact.graph import Model, is_op, ops
from intact.ptq.measure.output_errors import relative, worst
from intact.ptq.measure.quantization_state import State
from intact.ptq.mixed.float_layers import in_float
from intact.ptq.mixed.int16_inputs import WideUnits, with_wide_inputs
from intact.ptq.mixed.precision_search import (
    TRIALS,
    FileTrials,
    Form,
    UnitGroup,
    forms_of,
    is_hopeless,
    pays,
    raises,
    within,
)
from intact.ptq.mixed.predicted_time import PredictedTime, elements, shapes_of
from intact.ptq.stages.bias_overflow import with_room_for_biases
from intact.ptq.stages.choose_ranges import label, with_candidates
from intact.ptq.stages.int16_activations import Unit, raised, units_of
from intact.ptq.stages.stage_list import STAGES, run

GOOD_DB = 40.0
"""Signal to quantization noise that 16 bits that are asked for bring every output to: an error of 1%."""

POOR_DB = 26.0
"""Where an output has less, a budget is spent: an error of 5%."""

_AT = [stage.name for stage in STAGES].index("pairs")  # what was decided in front of them stays
_WORTH_DB = 3.0  # half of the squared error: what everything raised must gain to be worth a search
_STOPS_DB = 1.0  # so close to what everything raised brings nothing more is to be gained


def quantized(state: State, *, own: bool = False) -> State:
    """`state` behind all stages; once more with what helps where outputs are poor.

    Args:
        state: As given.
        own: Nobody else needs its model.
    """
    before = run(state, STAGES[:_AT], own=own)
    after = run(before, STAGES[_AT:])
    if not after.errors or not before.runs:
        return after
    if before.settings.bits16 == "auto":
        return after if _least(after) >= GOOD_DB else _enough(_Search(before, after))
    budget, least = before.settings.float_budget, _least(after)
    if not budget or least >= GOOD_DB:
        return after
    search = _Search(before, after)
    if least < POOR_DB:
        return _within_budget(search, search.groups(budget=budget), budget)
    recurrent = search.groups(budget=budget, error=_error(after), wanted=is_recurrent(before.model))
    return _within_budget(search, recurrent, budget, _error(after)) if recurrent else after


def _least(state: State) -> float:
    """Signal to quantization noise of the worst output, in dB."""
    return worst(state.errors[label(state)])


def is_worth_it(before: State, after: State) -> bool:
    """Whether the quantized model `after` is clearly better than `before`."""
    return pays(_error(before), _error(after))


def _error(state: State) -> float:
    """Of all outputs."""
    return relative(state.errors[label(state)])


def is_recurrent(model: Model) -> Callable[[Unit], bool]:
    """Whether a recurrent layer reads a unit.

    Where they are multiplied in int8 these lose more than other layers, from step to step; other engines
    leave them in float.
    """
    names = {node.name for node in model.graph if is_op(node, *ops.RECURRENT)}
    return lambda unit: not names.isdisjoint(unit.nodes)


def _within_budget(search: _Search, groups: Sequence[UnitGroup], budget: float, error: float = 0.0) -> State:
    """What is worth its time, in `budget` together.

    Args:
        search: The model.
        groups: What can be raised.
        budget: A part of the model's time.
        error: Of the outputs, with what is in none of the groups.
    """
    steps, proposed = within(groups, budget, error), None
    if is_hopeless(groups, steps, error):
        return search.after
    while steps and (proposed := search.proposed(forms_of(steps))) is None:  # a model in float throughout
        steps.pop()
    if proposed is None:
        return search.after
    again = search.finished(proposed)
    return again if is_worth_it(search.after, again) else search.after


def _enough(search: _Search) -> State:
    """As little as brings every output to `GOOD_DB`, or near what is possible."""
    steps = raises(search.groups(4 * TRIALS, seen=0.0), by_turns=True)
    while steps and search.proposed(forms_of(steps)) is None:  # a model in float throughout
        steps.pop()
    tried = dict[int, State]()

    def at(number: int) -> State:
        if number not in tried:
            proposed = search.proposed(forms_of(steps[:number])) if number else None
            tried[number] = search.after if proposed is None else search.finished(proposed)
        return tried[number]

    most = _least(at(len(steps)))
    if most < search.least + _WORTH_DB:
        why = f"it would bring the outputs from {search.least:.1f} to {most:.1f} dB"
        warning = f"bits16: 'auto' widens nothing: {why}"
        return replace(search.after, warnings=(*search.after.warnings, warning))
    goal = min(GOOD_DB, most - _STOPS_DB)
    low, high = 0, len(steps)  # not enough, enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _least(at(middle)) >= goal else (middle, high)
    return at(high)


@dataclass(frozen=True, eq=False)
class _Search:
    """A model, and what other forms of its tensors would do.

    Attributes:
        before: In front of the pairs.
        after: The same with its pairs, and its errors on the held runs.
    """

    before: State
    after: State

    @property
    def least(self) -> float:
        """The worst output with 8 bits, in dB."""
        return _least(self.after)

    def finished(self, proposed: State) -> State:
        """Behind the last stages."""
        shared = [state.model for state in (self.before, self._raised) if state is not None]
        return run(proposed, STAGES[_AT:], own=not any(proposed.model is model for model in shared))

    def groups(
        self, trials: int = TRIALS, budget: float = inf, seen: float = 0.01, error: float = 0.0,
        wanted: Callable[[Unit], bool] = lambda unit: True,
    ) -> list[UnitGroup]:  # fmt: skip
        """What can be raised within `budget`, measured by so many trials (`UnitTrials.measured`).

        None where nothing can be, or nothing would pay.
        """
        state = self.before
        units = [unit for unit in units_of(state) if wanted(unit)]
        if not units:
            return []
        wide = None if self._raised is None else WideUnits(state)
        longest = max((held.feeds for held in state.runs), key=elements)
        predicted = PredictedTime(state.model, state.placement, shapes_of(state.model, longest))
        found = FileTrials(state, self.after, predicted, wide)
        units = [
            unit for unit in units
            if min(found.time([unit], "16 bits"), found.time([unit], "float")) <= budget
        ]  # fmt: skip
        return found.measured(units, trials, seen, budget, error) if units else []

    @cached_property
    def _raised(self) -> State | None:
        """In an opset that has 16 bits; None where that may not be, or an operator has no form in it."""
        try:
            return raised(self.before) if self.before.settings.may_widen else None
        except UnsupportedError:
            return None

    def proposed(self, forms: Mapping[Form, Mapping[Unit, UnitGroup]]) -> State | None:
        """In front of the pairs, with these forms; None where that changes nothing.

        Whole ranges and those that were chosen are to be compared again.
        """
        by = "bits16='auto'" if self.before.settings.bits16 == "auto" else "the float budget"
        why = {
            form: {unit: group.reason(self.least, form, by) for unit, group in raised.items()}
            for form, raised in forms.items()
        }
        state = self.before
        if why["16 bits"]:
            assert self._raised is not None, "else nothing has that form"
            state = with_wide_inputs(self._raised, why["16 bits"])
        if why["float"]:
            state = in_float(state, why["float"])
        if state is self.before or not state.activations:  # float throughout is not what was asked for
            return None
        state = with_candidates(state)
        wanted = self.after.chosen, "max"
        again = {name: ranges for name, ranges in state.configurations.items() if name in wanted}
        state = replace(state, configurations=again or state.configurations)
        return with_room_for_biases(state) or state
