"""Which units get 16 bits or stay in float: those whose error in 8 bits is the largest for their time.

A unit (`sixteen`) is a tensor and the weights that multiply it. Units are quantized alone, by trials in
groups that are halved where their error is large (decision 33), once with their weights and, where 16 bits
could help, once without: what 16 bits leave is the error of the weights. What takes the most error off for
its time is raised first (docs/decisions/0043-two-bytes.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import inf, log2, log10
from typing import Literal

from intact.ptq.analysis.group_screening import screened
from intact.ptq.analysis.model_segments import Read
from intact.ptq.analysis.partial_quantization import grids_of
from intact.ptq.analysis.sensitivity_trials import Sweep, Trial
from intact.ptq.measure.quantization_state import State
from intact.ptq.mixed.int16_inputs import WideUnits
from intact.ptq.mixed.predicted_time import PredictedTime
from intact.ptq.stages.int16_activations import Unit

Form = Literal["16 bits", "float"]

TRIALS = 16
"""Of groups, at most: they find about three tensors among a hundred."""

RUNS = 2
"""Of the held ones: what is worth its time is seen in any."""

_LEAST = 1e-4  # of the error or the time: less is as good as nothing
_HALVES = 0.1  # of the time: what takes more must halve the error for each such part
_PAYS = 0.5  # of the error before: what a proposal must get below, as measured
_SLACK = 1.5  # times that, where errors of units alone are added up to tell it


@dataclass(frozen=True)
class Cost:
    """What a form of some units leaves of their error, and takes more, as a part of the model's time."""

    error: float
    time: float


@dataclass(frozen=True)
class UnitGroup:
    """Units that were measured together.

    Attributes:
        units: Which.
        error: Of the outputs with them alone in 8 bits.
        forms: What other forms cost: those that they can have.
    """

    units: tuple[Unit, ...]
    error: float
    forms: dict[Form, Cost]

    def reason(self, least: float, form: Form, by: str = "the float budget") -> str:
        """Why they have that form: `by` chose it, as an output has `least` dB."""
        who = "this tensor" if len(self.units) == 1 else f"{len(self.units)} neighbours"
        return (
            f"chosen by {by}: with 8 bits an output has {least:.1f} dB, with {who} alone in 8 bits "
            f"{-10 * log10(self.error):.1f} dB; about {self.forms[form].time:.1%} more time"
        )


@dataclass(frozen=True)
class Raise:
    """One group gets another form.

    Attributes:
        group, form: Which.
        gain: By how much the errors of all become less, where they add up.
        time: What that takes more.
    """

    group: UnitGroup
    form: Form
    gain: float
    time: float


def raises(groups: Sequence[UnitGroup], budget: float = inf, *, by_turns: bool = False) -> list[Raise]:
    """Step by step what takes the most error off for its time.

    Args:
        groups: Measured.
        budget: The most time, together.
        by_turns: What can have 16 bits is in float only behind them.
    """
    now = [Cost(group.error, 0.0) for group in groups]
    first = [{"16 bits"} & group.forms.keys() if by_turns else set() for group in groups]
    found, left = list[Raise](), budget
    while True:
        fitting = [
            (index, Raise(group, form, now[index].error - cost.error, cost.time - now[index].time))
            for index, group in enumerate(groups) for form, cost in group.forms.items()
            if cost.error < now[index].error and 0 <= cost.time - now[index].time <= left
            and first[index] <= {form}
        ]  # fmt: skip
        if not fitting:
            return found
        index, best = max(fitting, key=lambda one: one[1].gain / max(one[1].time, _LEAST))
        now[index], first[index] = groups[index].forms[best.form], set()
        found.append(best)
        left -= best.time


def worth(steps: Sequence[Raise], total: float) -> int:
    """How many of `steps`, from the first on, are worth their time: those that make
    ``log2(errors before / errors behind) - time / 0.1`` the largest.

    Args:
        steps: See `raises`.
        total: The errors of all groups.
    """
    most, best, left, spent = 0.0, 0, total, 0.0
    for number, one in enumerate(steps, 1):
        left, spent = left - one.gain, spent + one.time
        if (now := log2(total / max(left, total * _LEAST)) - spent / _HALVES) > most:
            most, best = now, number
    return best


def within(groups: Sequence[UnitGroup], budget: float, error: float = 0.0) -> list[Raise]:
    """The steps that are worth their time, where so much may be spent.

    Args:
        groups: Measured.
        budget: The most time, together.
        error: Of the outputs, where there are units in none of the groups.
    """
    steps = raises(groups, budget)
    return steps[: worth(steps, max(error, sum(group.error for group in groups)))]


def forms_of(steps: Sequence[Raise]) -> dict[Form, dict[Unit, UnitGroup]]:
    """The forms that `steps` lead to, by unit."""
    found: dict[Form, dict[Unit, UnitGroup]] = {"16 bits": {}, "float": {}}
    for group, form in {id(one.group): (one.group, one.form) for one in steps}.values():
        found[form] |= dict.fromkeys(group.units, group)
    return found


def is_hopeless(groups: Sequence[UnitGroup], steps: Sequence[Raise], error: float = 0.0) -> bool:
    """Whether `steps` leave so much that the errors of all can hardly fall as far as they must.

    Args:
        groups: Measured, or what they may be at best.
        steps: What is raised of them.
        error: Of the outputs, where there are units in none of the groups.
    """
    total = max(error, sum(group.error for group in groups))
    return total - sum(step.gain for step in steps) > _SLACK * _PAYS * total


def pays(before: float, after: float) -> bool:
    """Whether a model is clearly better than the one `before`: by the errors of their outputs."""
    return after <= _PAYS * before


class UnitTrials(ABC):
    """Measures units of a model, whatever runs it.

    Args:
        predicted: Times.
        wide: Nodes that may read 16 bits.
    """

    def __init__(self, predicted: PredictedTime, wide: Container[str] = ()) -> None:
        self._predicted, self._wide = predicted, wide

    @abstractmethod
    def can_widen(self, unit: Unit) -> bool:
        """Whether a unit can have 16 bits."""

    @abstractmethod
    def errors(self, parts: Sequence[Sequence[Unit]], weights: bool) -> Sequence[float]:
        """Of the outputs, see `evaluator.relative`, with one part alone in 8 bits each time.

        Args:
            parts: Units that are quantized together.
            weights: With those that multiply them.
        """

    def measured(
        self, units: Sequence[Unit], trials: int = TRIALS, seen: float = 0.01, budget: float = inf,
        error: float = 0.0,
    ) -> list[UnitGroup]:  # fmt: skip
        """The errors and times of `units`, each alone or with neighbours that can have the same forms.

        None where 16 bits would not pay even if they left nothing of any group's error.

        Args:
            units: One or more.
            trials: At most so many, and as many again where 16 bits could help.
            seen: Of the errors of all; only float is offered to what has less.
            budget: The most time that may be spent; infinity: whether it pays is not asked.
            error: Of the outputs, where there are more units than these.
        """
        units = sorted(units, key=self.can_widen)

        def measure(groups: Sequence[range]) -> Sequence[float]:
            return self.errors([units[group.start : group.stop] for group in groups], True)

        found = screened(len(units), trials, measure)
        parts = [tuple(units[group.start : group.stop]) for group in found]
        least = seen * sum(group.error for group in found)
        asked = [
            part for part, group in zip(parts, found, strict=True)
            if group.error >= least and all(self.can_widen(unit) for unit in part)
        ]  # fmt: skip
        if budget < inf:  # 16 bits leave nothing at best
            both = list(zip(parts, found, strict=True))
            best = [UnitGroup(p, g.error, self._forms(p, g.error, g.error)) for p, g in both]
            if is_hopeless(best, within(best, budget, error), error):
                return []
        alone = dict(zip(asked, self.errors(asked, False), strict=True)) if asked else {}
        return [
            UnitGroup(part, group.error, self._forms(part, group.error, alone.get(part)))
            for part, group in zip(parts, found, strict=True)
        ]

    def _forms(self, part: Sequence[Unit], error: float, alone: float | None) -> dict[Form, Cost]:
        forms: dict[Form, Cost] = {"float": Cost(0.0, self.time(part, "float"))}
        if alone is not None:
            time = self.time(part, "16 bits")
            if time < inf:
                forms["16 bits"] = Cost(max(error - alone, 0.0), time)
        return forms

    def time(self, units: Sequence[Unit], form: Form) -> float:
        """What these take more in a form, as a part of the model's time; infinity: they cannot have it."""
        if form == "float":
            return self._predicted.added(units)
        return self._predicted.added(units, self._wide) if all(map(self.can_widen, units)) else inf


class FileTrials(UnitTrials):
    """Measures units of a model in a file.

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
        return self._units is not None and self._units.reads(unit) is not None

    def errors(self, parts: Sequence[Sequence[Unit]], weights: bool) -> list[float]:
        reads = [frozenset().union(*(self._reads(unit, weights) for unit in part)) for part in parts]
        return self._sweep.measure([Trial(one) for one in reads])

    def _reads(self, unit: Unit, weights: bool) -> frozenset[Read]:
        """What is quantized of a unit: its tensors, and the weights that multiply them."""
        activations = [read for t in self._state.activations if t.key == unit.key for read in t.readers]
        if not weights:
            return frozenset(activations)
        nodes = set(unit.nodes)
        constants = (t for t in self._state.targets if t.site.role == "weight")
        return frozenset([*activations, *(r for t in constants for r in t.readers if r[0] in nodes)])
