"""Runs the last stages, and repeats them with some layers in 16 bits or float where outputs are poor.

Tensors are quantized alone, and what takes the most error off for its predicted time is raised first
(`precision_search`). A budget is spent where an output is below `POOR_DB`, on what is worth it. Where one
stays below `GATE_DB`, it is of no use: then as little is taken as brings it there, whatever that costs.
Where dynamic ranges alone, without any pairs, would have more decibels, the budget is spent to come near.
``bits16="auto"`` takes as little as brings every output to `GOOD_DB`, found by bisection
(docs/decisions/0043-int16-activations-int8-weights.md). On what recurrent layers read the budget is spent
however good outputs are (docs/decisions/0025-recurrent-states-in-float.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from intact.calib import Histogram
from intact.errors import UnsupportedError
from intact.graph import Model, is_op, ops
from intact.processes import cached_property
from intact.ptq.measure.output_errors import relative_error
from intact.ptq.measure.quantization_state import State
from intact.ptq.mixed.dynamic_ranges import NEAR_DB, choose_dynamic_ranges, sqnr_without_pairs
from intact.ptq.mixed.int16_inputs import WideUnits, with_wide_inputs
from intact.ptq.mixed.precision_search import (
    TRIALS,
    FileTrials,
    Form,
    UnitGroup,
    affordable_steps,
    fewest_steps,
    forms_of,
    greedy_steps,
    is_clearly_better,
    predict_step_count,
)
from intact.ptq.mixed.predicted_time import predict_time
from intact.ptq.mixed.tried_states import AT_PAIRS, TriedState
from intact.ptq.stages.bias_overflow import with_room_for_biases
from intact.ptq.stages.choose_ranges import (
    label,
    least_sqnr,
    least_unseen_sqnr,
    with_candidates_again,
)
from intact.ptq.stages.int16_activations import Unit, units_of, with_int16_opset
from intact.ptq.stages.stage_list import STAGES, run
from intact.ptq.stages.unquantized_reads import without_reads

GOOD_DB = 40.0
"""Signal to quantization noise that 16 bits that are asked for bring every output to: an error of 1%."""

POOR_DB = 26.0
"""SQNR of an output below which a budget is spent: an error of 5%."""

GATE_DB = 25.0
"""SQNR below which an output is of no use (docs/decisions/0069-gate.md)."""


def quantize_within_budget(state: State, *, own: bool = False) -> State:
    """Run all stages; where outputs are poor, run the last ones again with 16 bits or float for some layers.

    Args:
        state: As given.
        own: Nobody else needs its model.
    """
    floats = before = run(state, STAGES[:AT_PAIRS], own=own)
    after = run(before, STAGES[AT_PAIRS:])
    before, after, codes = choose_dynamic_ranges(before, after)
    if not after.errors or not before.runs:
        return after
    if before.settings.bits16 == "auto":
        if least_sqnr(after) >= GOOD_DB:
            return after
        search = _Search(before, after)
        return _reach_sqnr(search, search.groups(4 * TRIALS, least_share=0.0), GOOD_DB, None, by_turns=True)
    budget, least = before.settings.budget, least_unseen_sqnr(after)
    if not budget:
        return after
    search = _Search(before, after, is_unseen=True)
    if least >= GOOD_DB:
        return _widen_recurrent_inputs(search, budget)
    goal = sqnr_without_pairs(floats, codes) - NEAR_DB if codes is not None else 0.0
    if before.settings.has_gate and goal > max(least, GATE_DB):
        groups = search.groups(2 * TRIALS, budget=budget)
        result = _reach_sqnr(search, groups, min(goal, GOOD_DB), None, budget=budget)
        if result is not after and least_unseen_sqnr(result) >= GATE_DB:
            return result
    if least < GATE_DB and before.settings.has_gate:
        groups = search.groups(2 * TRIALS, least_share=0.0)
        with_budget = _spend_budget(search, groups, budget)
        if with_budget is not None and search.ratio(with_budget) >= GATE_DB:
            return with_budget.finish()
        return _reach_sqnr(search, groups, GATE_DB, with_budget)
    if least < POOR_DB:
        proposal = _spend_budget(search, search.groups(budget=budget), budget)
        return after if proposal is None else proposal.finish()
    return _widen_recurrent_inputs(search, budget)


def _widen_recurrent_inputs(search: _Search, budget: float) -> State:
    """Raise the precision of what recurrent layers read where that is worth its time."""
    error, is_recurrent = _error_of_outputs(search.after), reader_is_recurrent(search.before.model)
    if not any(map(is_recurrent, units_of(search.before))):
        return search.after
    groups = search.groups(budget=budget, error=error, is_considered=is_recurrent)
    proposal = _spend_budget(search, groups, budget, error) if groups else None
    return search.after if proposal is None else proposal.finish()


def _error_of_outputs(state: State) -> float:
    """Return the relative error of all outputs, on unseen samples where these were measured."""
    return relative_error(state.unseen or state.errors[label(state)])


def reader_is_recurrent(model: Model) -> Callable[[Unit], bool]:
    """Return a predicate: whether a recurrent layer reads a unit.

    Where they are multiplied in int8 these lose more than other layers, from step to step; other engines
    leave them in float.
    """
    names = {node.name for node in model.graph if is_op(node, *ops.RECURRENT)}
    return lambda unit: not names.isdisjoint(unit.nodes)


def _spend_budget(
    search: _Search, groups: Sequence[UnitGroup], budget: float, error: float = 0.0
) -> TriedState | None:
    """Raise the precision of what is worth its time, within `budget` in total; None where nothing is.

    Args:
        search: The model.
        groups: What can be raised.
        budget: A part of the model's time.
        error: Of the outputs, with what is in none of the groups.
    """
    steps, proposal = affordable_steps(groups, budget, error), None
    while steps and (proposal := search.propose(forms_of(steps))) is None:  # a model in float throughout
        steps.pop()
    if proposal is None:
        return None
    tried = search.measure(proposal)
    return tried if is_clearly_better(_error_of_outputs(search.after), tried.error) else None


def _reach_sqnr(
    search: _Search, groups: Sequence[UnitGroup], goal: float, otherwise: TriedState | None,
    *, by_turns: bool = False, budget: float = inf,
) -> State:  # fmt: skip
    """Raise as few groups as bring every output to `goal` dB, or near what is possible.

    Args:
        search: The model.
        groups: What can be raised.
        goal: Signal to quantization noise ratio of every output.
        otherwise: What is taken where all of them bring next to nothing; None: nothing is.
        by_turns: What can have 16 bits is in float only behind them.
        budget: The most time that is predicted for them; less than infinity: no warning where it ends.
    """
    steps = greedy_steps(groups, budget, by_turns=by_turns)
    while steps and search.propose(forms_of(steps)) is None:  # a model in float throughout
        steps.pop()
    tried: dict[int, TriedState | None] = {0: None}

    def ratio_with(number: int) -> float:
        if number not in tried:
            proposal = search.propose(forms_of(steps[:number]), goal)
            tried[number] = None if proposal is None else search.measure(proposal)
        return search.ratio(tried[number])

    guess = predict_step_count(groups, steps, goal)
    number = fewest_steps(len(steps), guess, goal, search.least, ratio_with, is_exact=by_turns)
    if number is not None:
        return search.finish(tried[number])
    what = "bits16: 'auto' widens nothing" if by_turns else f"16 bits and float do not reach {goal:g} dB"
    most = ratio_with(len(steps))
    warning = f"{what}: it would bring the outputs from {search.least:.1f} to {most:.1f} dB"
    result = search.finish(otherwise)
    is_told = (steps or by_turns) and budget == inf
    return replace(result, warnings=(*result.warnings, warning)) if is_told else result


@dataclass(frozen=True, eq=False)
class _Search:
    """Searches for other number formats of a model's tensors.

    Attributes:
        before: In front of the pairs.
        after: The same with its pairs, and its errors on the hold-out samples.
        is_unseen: Whether ratios are those of samples that ranges do not know.
    """

    before: State
    after: State
    is_unseen: bool = False

    @property
    def least(self) -> float:
        """The ratio of the worst output with 8 bits, in dB."""
        return self.ratio(None)

    def ratio(self, tried: TriedState | None) -> float:
        """Return the signal to quantization noise ratio of the worst output; None: with 8 bits."""
        if tried is None:
            return least_unseen_sqnr(self.after) if self.is_unseen else least_sqnr(self.after)
        return tried.least_unseen_sqnr if self.is_unseen else tried.least_sqnr

    def finish(self, tried: TriedState | None) -> State:
        """Run the last stages to the end; None: the result with 8 bits."""
        return self.after if tried is None else tried.finish()

    def measure(self, proposed: State) -> TriedState:
        """Insert the pairs of `proposed`, to measure it."""
        shared = [state.model for state in (self.before, self._int16_state) if state is not None]
        if proposed.dynamic:
            proposed = replace(proposed, dynamic_codes=self.after.model)
        is_own = not any(proposed.model is model for model in shared)
        return TriedState(proposed, self.after, own=is_own)

    def groups(
        self, trials: int = TRIALS, budget: float = inf, least_share: float = 0.01, error: float = 0.0,
        is_considered: Callable[[Unit], bool] = lambda unit: True,
    ) -> list[UnitGroup]:  # fmt: skip
        """Measure the groups of units that can be raised within `budget`, with at most `trials` trials.

        None where nothing can be, or nothing would pay.
        """
        state = self.before
        units = [unit for unit in units_of(state) if is_considered(unit)]
        if not units:
            return []
        wide = None if self._int16_state is None else WideUnits(state)
        unit_trials = FileTrials(state, self.after, predict_time(state), wide)
        return unit_trials.measure(units, trials, least_share, budget, error)

    @cached_property
    def _int16_state(self) -> State | None:
        """The state in an opset with 16-bit pairs; None where that is not possible."""
        try:
            return with_int16_opset(self.before) if self.before.settings.may_widen else None
        except UnsupportedError:
            return None

    def propose(self, forms: Mapping[Form, Mapping[Unit, UnitGroup]], goal: float = 0.0) -> State | None:
        """Return the state in front of the pairs with these formats; None where nothing would change.

        Whole ranges and those that were chosen are to be compared again.

        Args:
            forms: The formats.
            goal: The ratio in dB that every output has to reach; 0: a budget chose.
        """
        by = f"the {goal:g} dB that every output has to have" if goal else "the float budget"
        by = "bits16='auto'" if self.before.settings.bits16 == "auto" else by
        why = {
            form: {unit: self._reason(unit, group, form, by) for unit, group in units_of_form.items()}
            for form, units_of_form in forms.items()
        }
        groups = {(id(group), form): group for form, units in forms.items() for group in units.values()}
        time = sum(group.forms[form].time for (_, form), group in groups.items())
        state = replace(self.before, extra_time=time)
        if why["16 bits"]:
            assert self._int16_state is not None, "else nothing has that form"
            state = with_wide_inputs(replace(self._int16_state, extra_time=time), why["16 bits"])
        if why["float"]:
            state = keep_in_float(state, why["float"])
        if not groups or not state.activations:  # float throughout is not what was asked for
            return None
        state = with_candidates_again(state, self.after.chosen)
        return with_room_for_biases(state) or state

    def _reason(self, unit: Unit, group: UnitGroup, form: Form, by: str) -> str:
        """Explain why a unit has a format, with the values that it holds."""
        return f"{group.reason(self.least, form, by)}; {_values_of(self.before, unit)}"


def _values_of(state: State, unit: Unit) -> str:
    """Say which values the tensors of a unit take, and how many of them are far smaller."""
    assert state.calibration is not None
    stats = [state.calibration[name] for name in unit.tensors]
    low, high = min(float(s.min.min()) for s in stats), max(float(s.max.max()) for s in stats)
    small, counted = 0, 0
    for counts, width in ((s.counts, float(s.bin_width)) for s in stats if isinstance(s, Histogram)):
        small += int(counts[: int(max(-low, high) / 100 / width)].sum())
        counted += int(counts.sum())
    share = f", {small / counted:.0%} of them within a hundredth of that" if counted else ""
    return f"its values reach from {low:.3g} to {high:.3g}{share}"


def keep_in_float(state: State, why: Mapping[Unit, str]) -> State:
    """Return `state` with the layers behind some units in float; ranges must be chosen again.

    Args:
        state: In front of the pairs.
        why: The units, each with the reason.
    """
    keys, nodes = {unit.key for unit in why}, {node for unit in why for node in unit.nodes}
    reads = {
        read for target in state.targets for read in target.readers
        if (target.key in keys if target.site.role == "activation" else read[0] in nodes)
    }  # fmt: skip
    reasons = {node: f"in float: {reason}" for unit, reason in why.items() for node in unit.nodes}
    in_float = {name: reason for unit, reason in why.items() for name in unit.tensors}
    return replace(without_reads(state, reads, reasons), in_float=in_float)
