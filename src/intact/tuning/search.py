"""The fastest choice that keeps the metric: the front halved, with each choice verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from intact.tuning.program import Choice, FormatProgram, cheapest, front
from intact.tuning.result import TuneTrial

Verify = Callable[[Choice], TuneTrial]


@dataclass(frozen=True)
class TuneSearch:
    """How a search went.

    Attributes:
        front: The choices that it began with, the fastest first.
        tried: What was verified, in order.
        best: The answer: the fastest that meets the target, by measured time; where none does, the one with
            the best metric.
    """

    front: tuple[Choice, ...]
    tried: tuple[Choice, ...]
    best: Choice


def searched(program: FormatProgram, verify: Verify, trials: int) -> TuneSearch:
    """Look for the fastest choice that meets the target.

    The metric is taken to grow along the front as the expected error falls: what that is wrong about costs
    trials, and never lets a choice pass that was not measured.

    Args:
        program: The costs.
        verify: Quantizes and measures a choice.
        trials: How many choices may be verified.
    """
    choices = front(program)
    base: Choice = (0,) * len(program.errors)
    tried: dict[Choice, TuneTrial] = {base: verify(base)}

    def meets(choice: Choice) -> bool:
        if choice not in tried:
            tried[choice] = verify(choice)
        return tried[choice].met

    def spent() -> bool:
        return len(tried) >= trials

    # What is at `low` and before it fails; what is at `high` meets the target, or is not there.
    low, high = 0, len(choices)
    if choices and (choices[0] in tried or not spent()) and meets(choices[0]):
        low, high = -1, 0
    while high - low > 1 and not spent():
        middle = (low + high) // 2
        low, high = (low, middle) if meets(choices[middle]) else (middle, high)
    _refine(program, choices, low, high, meets, spent)
    return TuneSearch(tuple(choices), tuple(tried), _best(tried))


def _refine(
    program: FormatProgram,
    choices: list[Choice],
    low: int,
    high: int,
    meets: Callable[[Choice], bool],
    spent: Callable[[], bool],
) -> None:
    """Halve the gap of the front between what fails and what meets the target."""
    if low < 0 or high >= len(choices):
        return
    worse, better = program.error(choices[low]), program.error(choices[high])
    seen = {choices[low], choices[high]}
    while not spent() and better < worse:
        middle = sqrt(worse * better) if better > 0 else worse / 4
        choice = cheapest(program, middle)
        if choice is None or choice in seen:
            return
        seen.add(choice)
        if meets(choice):
            better = middle
        else:
            worse = min(middle, program.error(choice))


def _best(tried: dict[Choice, TuneTrial]) -> Choice:
    met = [choice for choice, trial in tried.items() if trial.met]
    if met:
        return min(met, key=lambda one: (tried[one].seconds, tried[one].predicted_error, one))
    return max(tried, key=lambda one: (tried[one].score, -tried[one].seconds))
