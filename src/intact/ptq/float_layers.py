"""Layers left in float where 8 bits lose most for the least time.

In many networks whose outputs lose too much a few tensors lose nearly all of it, and most often they are read
by small layers. Where an output is poor the units (`sixteen`: a tensor and the weights that multiply it) are
quantized alone, by trials in groups that are halved where their error is large (decision 33), and those with
the largest error for their predicted time are left in float until a budget is spent
(docs/decisions/0039-float-layers.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2, log10

from intact.ptq.analysis.screening import screened
from intact.ptq.analysis.segments import Read
from intact.ptq.analysis.sweep import Sweep, Trial
from intact.ptq.analysis.variants import grids_of
from intact.ptq.bias_correction import drop_added
from intact.ptq.choose import label, with_candidates
from intact.ptq.evaluator import relative, worst
from intact.ptq.mixed_trial import POOR_DB
from intact.ptq.predicted_time import PredictedTime, shapes_of
from intact.ptq.ranges import QuantizedWeight
from intact.ptq.sixteen import Unit, said_of, units_of
from intact.ptq.stages import STAGES, run
from intact.ptq.state import State
from intact.ptq.targets import Target

_TRIALS = 16  # at most: they find about three tensors among a hundred
_RUNS = 2  # of the held ones: what is worth its time is seen in any
_HALVES = 0.1  # of the time: what layers in float take more must halve the error for each such part
_LEAST = 1e-4  # of the error or the time: less is as good as nothing
_WORTH = 0.5  # of the error before: what the layers in float must get below, as measured


def quantized(state: State, *, own: bool = False) -> State:
    """`state` behind all stages; once more with layers in float where outputs are poor and these help.

    `own`: nobody else needs its model.
    """
    at = [stage.name for stage in STAGES].index("pairs")
    before = run(state, STAGES[:at], own=own)
    after = run(before, STAGES[at:])
    left = with_float_layers(before, after)
    if left is None:
        return after
    again = run(left, STAGES[at:], own=True)
    return again if is_worth_it(after, again) else after


def with_float_layers(before: State, after: State) -> State | None:
    """`before` with layers left in float; None where `after` is good enough, or nothing in the budget helps.

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
    if least >= POOR_DB:
        return None
    units = units_of(before)
    shapes = shapes_of(before.model, before.runs[0].feeds)
    predicted = PredictedTime(before.model, before.placement, shapes)
    affordable = [unit for unit in units if predicted.added([unit]) <= budget]
    groups = _measured(before, after, affordable, predicted) if affordable else []
    chosen = within(budget, groups)
    why = {unit: _reason(least, group) for group in chosen for unit in group.units}
    left = in_float(before, why)
    if not why or not left.activations:  # a model that is float throughout is not what was asked for
        return None
    left = with_candidates(left)
    again = {name: ranges for name, ranges in left.configurations.items() if name in (after.chosen, "max")}
    return replace(left, configurations=again)


def is_worth_it(before: State, after: State) -> bool:
    """Whether the quantized model `after`, with layers in float, is clearly better than `before`."""
    return _error(after) <= _WORTH * _error(before)


def _error(state: State) -> float:
    return relative(state.errors[label(state)])


@dataclass(frozen=True)
class UnitGroup:
    """Units that were measured together.

    Attributes:
        units: Which.
        error: Of the outputs with them alone quantized.
        time: What they take more in float, as a part of that of the whole model, by prediction.
    """

    units: tuple[Unit, ...]
    error: float
    time: float


def within(budget: float, groups: Sequence[UnitGroup]) -> list[UnitGroup]:
    """Those of `groups` that are worth their time, with the largest errors for it, in `budget` together.

    So many of them as make ``log2(errors of all / errors of the rest) - time / _HALVES`` the largest, where
    errors are taken to add up.
    """
    ranked = sorted(groups, key=lambda group: -group.error / max(group.time, _LEAST))
    total = left = sum(group.error for group in groups)
    chosen, best, most, spent = list[UnitGroup](), list[UnitGroup](), 0.0, 0.0
    for group in ranked:
        if spent + group.time > budget or not group.error:
            continue
        chosen, spent, left = [*chosen, group], spent + group.time, left - group.error
        if (worth := log2(total / max(left, total * _LEAST)) - spent / _HALVES) > most:
            best, most = chosen, worth
    return best


def _measured(
    before: State, after: State, units: Sequence[Unit], predicted: PredictedTime
) -> list[UnitGroup]:
    """The errors of `units`, each alone or with neighbours."""
    reads = [_reads(before, unit) for unit in units]
    sweep = Sweep(before.model, grids_of(before, after), before.runs[:_RUNS])

    def measure(groups: Sequence[range]) -> list[float]:
        return sweep.measure([Trial(frozenset().union(*(reads[i] for i in group))) for group in groups])

    return [
        UnitGroup(some := tuple(units[group.start : group.stop]), group.error, predicted.added(some))
        for group in screened(len(units), _TRIALS, measure)
    ]  # fmt: skip


def _reads(state: State, unit: Unit) -> frozenset[Read]:
    """What is quantized of a unit: its tensors, and the weights that multiply them."""
    activations = (read for t in state.activations if t.key == unit.key for read in t.readers)
    nodes = set(unit.nodes)
    weights = (t for t in state.targets if t.site.role == "weight")
    return frozenset([*activations, *(read for t in weights for read in t.readers if read[0] in nodes)])


def _reason(least: float, group: UnitGroup) -> str:
    who = "this tensor" if len(group.units) == 1 else f"{len(group.units)} neighbours"
    return (
        f"with 8 bits an output has {least:.1f} dB, with {who} alone in 8 bits "
        f"{-10 * log10(group.error):.1f} dB; about {group.time:.1%} more time"
    )


def in_float(state: State, why: Mapping[Unit, str]) -> State:
    """`state` with the layers behind some units in float; its ranges are still to be chosen.

    Args:
        state: In front of the pairs.
        why: The units, each with the reason.
    """
    keys, nodes = {unit.key for unit in why}, {node for unit in why for node in unit.nodes}
    targets, weights = list[Target](), list[QuantizedWeight]()
    known = iter(state.weights)
    for target in state.targets:
        if target.site.role == "activation":
            targets += [] if target.key in keys else [target]
            continue
        weight, readers = next(known), tuple(r for r in target.readers if r[0] not in nodes)
        if readers:
            targets.append(replace(target, readers=readers))
            weights.append(replace(weight, readers=readers))
    model, errors = state.model.clone(), state.bias_errors
    drop_added(model, [error for error in errors if error.node in nodes])
    reasons = {node: f"in float: {said}" for unit, said in why.items() for node in unit.nodes}
    layers = tuple(said_of(layer, reasons) for layer in state.placement.layers)
    return replace(
        state, model=model, targets=tuple(targets), weights=tuple(weights),
        bias_errors=tuple(error for error in errors if error.node not in nodes),
        in_float={name: said for unit, said in why.items() for name in unit.tensors},
        placement=replace(state.placement, layers=layers),
    )  # fmt: skip
