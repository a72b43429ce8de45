"""Chooses which units get 16 bits or stay in float, by error saved per predicted time.

A unit (`int16_activations`) is a tensor and the weights that multiply it. Units are quantized alone, by
trials in groups that are halved where their error is large (decision 33), once with their weights and, where
16 bits could help, once without: what 16 bits leave is the error of the weights. What takes the most
error off for its time is raised first (docs/decisions/0043-int16-activations-int8-weights.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from math import inf, log2
from typing import NamedTuple

from intact.ptq.analysis.partial_quantization import grids_of
from intact.ptq.analysis.sensitivity_trials import Sweep, Trial
from intact.ptq.analysis.sensitivity_units import screen_groups
from intact.ptq.budget_search import BudgetProgram, Upgrade
from intact.ptq.measure.quantization_state import State
from intact.ptq.mixed.int16_inputs import WideUnits
from intact.ptq.mixed.predicted_time import PredictedTime
from intact.ptq.scope.quantization_targets import Read
from intact.ptq.stages.int16_activations import Unit
from intact.signal_to_noise import signal_to_noise

Form = str
"""A format that a unit can have: "16 bits" or "float" in `float_budget`."""

TRIALS = 16
"""Of groups, at most: they find about three tensors among a hundred."""

RUNS = 2
"""Of the held ones: what is worth its time is seen in any."""

_WORTH_DB = 3.0  # half of the squared error: what everything raised must gain to be worth a search
_STOPS_DB = 1.0  # so close to what everything raised brings nothing more is to be gained
_LEAST = 1e-4  # of the error or the time: less is as good as nothing
_HALVES = 0.1  # of the time: what takes more must halve the error for each such part
_PAYS = 0.5  # of the error before: what a proposal must get below, as measured
_SLACK = 1.5  # times that, where errors of units alone are added up to tell it


class Cost(NamedTuple):
    """Holds the error that a format leaves in a unit, and the extra time as a part of the model's time."""

    error: float
    time: float


@dataclass(frozen=True)
class UnitGroup:
    """Holds the measured error of units that were quantized together, and the cost of other formats.

    Attributes:
        units: The units of the group.
        error: The error of the outputs with them alone in 8 bits.
        forms: The cost of each other format that they can have.
    """

    units: tuple[Unit, ...]
    error: float
    forms: dict[Form, Cost]

    def reason(self, least: float, form: Form, by: str = "the float budget") -> str:
        """Explain why the units have that format: `by` chose it because an output has `least` dB.

        Args:
            least: Signal to quantization noise ratio of the worst output with 8 bits, in dB.
            form: The format.
            by: What chose it.
        """
        units = "this tensor" if len(self.units) == 1 else f"{len(self.units)} neighbours"
        return (
            f"chosen by {by}: with 8 bits an output has {least:.1f} dB, with {units} alone in 8 bits "
            f"{signal_to_noise(1.0, self.error):.1f} dB; about {self.forms[form].time:.1%} more time"
        )


PrecisionStep = Upgrade[UnitGroup]
"""One group that gets another format: `gain` is error, `price` extra time as a part of the model's time."""


def greedy_steps(
    groups: Sequence[UnitGroup], budget: float = inf, *, by_turns: bool = False
) -> list[PrecisionStep]:
    """Return steps that raise precision, at each point the one that saves the most error for its time.

    Args:
        groups: Measured.
        budget: The most time, together.
        by_turns: What can have 16 bits is in float only behind them.
    """
    rows = ({"8 bits": (group.error, 0.0)} | group.forms for group in groups)
    program = BudgetProgram.of_rows(groups, ("8 bits", "float", "16 bits"), Cost._fields, rows)
    return program.upgrades("error", "time", budget, entry="16 bits" if by_turns else None)


def count_worthwhile(steps: Sequence[PrecisionStep], total: float) -> int:
    """Count the first steps that maximize ``log2(errors before / errors behind) - time / 0.1``.

    Args:
        steps: See `greedy_steps`.
        total: The errors of all groups.
    """
    most, best, left, spent = 0.0, 0, total, 0.0
    for number, step in enumerate(steps, 1):
        left, spent = left - step.gain, spent + step.price
        if (now := log2(total / max(left, total * _LEAST)) - spent / _HALVES) > most:
            most, best = now, number
    return best


def affordable_steps(groups: Sequence[UnitGroup], budget: float, error: float = 0.0) -> list[PrecisionStep]:
    """Return the steps that are worth their time within `budget`; none where they leave too much error.

    Args:
        groups: Measured.
        budget: The most time, together.
        error: Of the outputs, where there are units in none of the groups.
    """
    steps = greedy_steps(groups, budget)
    steps = steps[: count_worthwhile(steps, max(error, sum(group.error for group in groups)))]
    return [] if is_hopeless(groups, steps, error) else steps


def forms_of(steps: Sequence[PrecisionStep]) -> dict[Form, dict[Unit, UnitGroup]]:
    """Return the formats that `steps` lead to, by unit."""
    forms: dict[Form, dict[Unit, UnitGroup]] = {"16 bits": {}, "float": {}}
    for group, form in {id(step.item): (step.item, step.choice) for step in steps}.values():
        forms[form] |= dict.fromkeys(group.units, group)
    return forms


def predict_step_count(groups: Sequence[UnitGroup], steps: Sequence[PrecisionStep], goal: float) -> int:
    """Return how many steps leave the error of `goal` dB, if errors of groups alone add up."""
    left = sum(group.error for group in groups)
    for number, step in enumerate(steps):
        if left <= 10 ** (-goal / 10):
            return number
        left -= step.gain
    return len(steps)


def fewest_steps(
    count: int, guess: int, goal: float, least: float, ratio_with: Callable[[int], float],
    *, is_exact: bool = False,
) -> int | None:  # fmt: skip
    """Return how many steps bring outputs to `goal`, or near what all steps bring, by bisection.

    None where all of them bring next to nothing.

    Args:
        count: All steps.
        guess: A number to begin with.
        goal: Signal to quantization noise ratio in dB.
        least: The ratio without any step.
        ratio_with: Measures the ratio with the first steps.
        is_exact: Find the least number; False: any that leaves less than `_STOPS_DB` above `goal`.
    """
    number, least_ratio = max(1, guess), goal
    low, high = 0, count  # not enough, enough
    while low < number < high and ratio_with(number) < goal:
        low, number = number, (number + high + 1) // 2
    high = min(number, high)
    if high == count and (most := ratio_with(high)) < goal:
        if most < least + _WORTH_DB:
            return None
        low, least_ratio = 0, min(goal, most - _STOPS_DB)
    near = least_ratio if is_exact else least_ratio + _STOPS_DB
    while high - low > 1 and ratio_with(high) > near:
        middle = (low + high) // 2
        low, high = (low, middle) if ratio_with(middle) >= least_ratio else (middle, high)
    return high


def is_hopeless(groups: Sequence[UnitGroup], steps: Sequence[PrecisionStep], error: float = 0.0) -> bool:
    """Return whether `steps` leave so much error that the model can hardly become clearly better.

    Args:
        groups: Measured, or what they may be at best.
        steps: What is raised of them.
        error: Of the outputs, where there are units in none of the groups.
    """
    total = max(error, sum(group.error for group in groups))
    return total - sum(step.gain for step in steps) > _SLACK * _PAYS * total


def is_clearly_better(before: float, after: float) -> bool:
    """Return whether the error `after` is at most half of that `before`."""
    return after <= _PAYS * before


class UnitTrials(ABC):
    """Measures units of a model; subclasses run it.

    Args:
        predicted: Times.
        wide: Nodes that may read 16 bits.
    """

    def __init__(self, predicted: PredictedTime, wide: Container[str] = ()) -> None:
        self._predicted, self._wide = predicted, wide

    @abstractmethod
    def can_widen(self, unit: Unit) -> bool:
        """Return whether a unit can have 16 bits."""

    @abstractmethod
    def errors(self, parts: Sequence[Sequence[Unit]], weights: bool) -> Sequence[float]:
        """Return the relative error of the outputs with each part alone in 8 bits.

        Args:
            parts: Units that are quantized together.
            weights: With those that multiply them.
        """

    def measure(
        self, units: Sequence[Unit], trials: int = TRIALS, least_share: float = 0.01, budget: float = inf,
        error: float = 0.0,
    ) -> list[UnitGroup]:  # fmt: skip
        """Measure the errors and times of `units`, alone or with neighbours that can have the same formats.

        None where no unit can be raised within the budget, or 16 bits would not pay even if they left nothing
        of any group's error.

        Args:
            units: Which.
            trials: At most so many, and as many again where 16 bits could help.
            least_share: Of the errors of all; only float is offered to what has less.
            budget: The most time that may be spent; infinity: whether it pays is not asked.
            error: Of the outputs, where there are more units than these.
        """
        if budget < inf:
            units = [u for u in units if min(self.time([u], "16 bits"), self.time([u], "float")) <= budget]
        if not units:
            return []
        units = sorted(units, key=self.can_widen)

        def measure(groups: Sequence[range]) -> Sequence[float]:
            return self.errors([units[group.start : group.stop] for group in groups], True)

        screened_groups = screen_groups(len(units), trials, measure)
        parts = [tuple(units[group.start : group.stop]) for group in screened_groups]
        least = least_share * sum(group.error for group in screened_groups)
        widenable = [
            part for part, group in zip(parts, screened_groups, strict=True)
            if group.error >= least and all(self.can_widen(unit) for unit in part)
        ]  # fmt: skip
        if budget < inf:  # 16 bits leave nothing at best
            pairs = list(zip(parts, screened_groups, strict=True))
            best = [UnitGroup(p, g.error, self._forms(p, g.error, g.error)) for p, g in pairs]
            if not affordable_steps(best, budget, error):
                return []
        alone = dict(zip(widenable, self.errors(widenable, False), strict=True)) if widenable else {}
        return [
            UnitGroup(part, group.error, self._forms(part, group.error, alone.get(part)))
            for part, group in zip(parts, screened_groups, strict=True)
        ]

    def _forms(self, part: Sequence[Unit], error: float, alone: float | None) -> dict[Form, Cost]:
        forms: dict[Form, Cost] = {"float": Cost(0.0, self.time(part, "float"))}
        if alone is not None:
            time = self.time(part, "16 bits")
            if time < inf:
                forms["16 bits"] = Cost(max(error - alone, 0.0), time)
        return forms

    def time(self, units: Sequence[Unit], form: Form) -> float:
        """Return the extra time of a format as a part of the model's time; infinity where it is not
        possible.
        """
        if form == "float":
            return self._predicted.time_difference(units)
        return self._predicted.time_difference(units, self._wide) if all(map(self.can_widen, units)) else inf


class FileTrials(UnitTrials):
    """Measures units of an ONNX model.

    Args:
        before: In front of the pairs.
        after: Behind them.
        predicted: Times.
        wide: What can have 16 bits; None: nothing may.
    """

    def __init__(self, before: State, after: State, predicted: PredictedTime, wide: WideUnits | None) -> None:
        super().__init__(predicted, () if wide is None else wide.layers)
        self._state, self._units = before, wide
        self._sweep = Sweep(before.model, grids_of(before, after), before.runs[:RUNS])

    def can_widen(self, unit: Unit) -> bool:
        """Return whether all readers of a unit can take 16 bits."""
        return self._units is not None and self._units.reads(unit) is not None

    def errors(self, parts: Sequence[Sequence[Unit]], weights: bool) -> list[float]:
        """Return the relative error of the outputs with each part alone in 8 bits."""
        reads = [frozenset().union(*(self._reads(unit, weights) for unit in part)) for part in parts]
        return self._sweep.measure([Trial(group_reads) for group_reads in reads])

    def _reads(self, unit: Unit, weights: bool) -> frozenset[Read]:
        """Return the quantized reads of a unit: its tensors and the weights that multiply them."""
        activations = [read for t in self._state.activations if t.key == unit.key for read in t.readers]
        if not weights:
            return frozenset(activations)
        nodes = set(unit.nodes)
        constants = (t for t in self._state.targets if t.site.role == "weight")
        return frozenset([*activations, *(r for t in constants for r in t.readers if r[0] in nodes)])
