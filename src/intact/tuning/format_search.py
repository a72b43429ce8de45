"""Searches for the fastest choice of formats that keeps the metric."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import TypeVar

from intact.ptq.mixed import BudgetProgram, Selection
from intact.tuning.tune_result import TuneTrial

Verify = Callable[[Selection], TuneTrial]
Ahead = Callable[[Sequence[Selection]], None]
T = TypeVar("T")
Walk = Generator[Selection, tuple[bool, bool], T]
"""Yields choices; is told whether each meets the target, and whether no more may be verified."""


@dataclass(frozen=True)
class TuneSearch:
    """Records how a search went.

    Attributes:
        front: The choices that it began with, the fastest first.
        tried: What was verified, in order.
        best: The answer: the fastest that meets the target, by measured time; where none does, the one with
            the best metric.
    """

    front: tuple[Selection, ...]
    tried: tuple[Selection, ...]
    best: Selection


def search_formats(
    program: BudgetProgram, verify: Verify, trials: int, ahead: Ahead | None = None, width: int = 1
) -> TuneSearch:
    """Look for the fastest choice that meets the target.

    The metric is taken to grow along the front as the expected error falls: what that is wrong about costs
    trials, and never lets a choice pass that was not measured. What trials are left look for layers that the
    metric can do without.

    Args:
        program: The costs.
        verify: Quantizes and measures a choice.
        trials: How many choices may be verified.
        ahead: Called in front of `verify` with the choice and those that are likely to follow, so that
            several workers have something to do. It changes nothing of what is verified.
        width: How many choices `ahead` gets at most.
    """
    path = _Path(program, trials)
    tried: dict[Selection, TuneTrial] = {}
    while (
        choice := path.next({tried_choice: trial.met for tried_choice, trial in tried.items()})
    ) is not None:
        if ahead is not None:
            ahead(path.likely({tried_choice: trial.met for tried_choice, trial in tried.items()}, width))
        tried[choice] = verify(choice)
    return TuneSearch(tuple(path.front), tuple(tried), _best(tried))


class _Path:
    """Determines the next choice of a search from the outcomes of earlier ones.

    Args:
        program: The costs.
        trials: How many choices may be verified.
    """

    def __init__(self, program: BudgetProgram, trials: int) -> None:
        self._program, self._trials = program, trials
        self._cheapest = cache(lambda most: program.solve("seconds", {"error": most}))
        self.front = program.front("seconds", "error")

    def next(self, outcomes: Mapping[Selection, bool]) -> Selection | None:
        """Return the next choice to verify, given which earlier ones meet the target; None at the end."""
        walk = self._walk()
        try:
            choice, passed = next(walk), set[Selection]()
            while choice in outcomes:
                passed.add(choice)
                choice = walk.send((outcomes[choice], len(passed) >= self._trials))
        except StopIteration:
            return None
        return choice

    def likely(self, outcomes: Mapping[Selection, bool], count: int) -> list[Selection]:
        """Return at most `count` choices that may come next, whatever the outcomes, the nearest first."""
        choices: dict[Selection, None] = {}
        waiting = deque([dict(outcomes)])
        while waiting and len(choices) < count:
            assumed = waiting.popleft()
            if (choice := self.next(assumed)) is not None:
                choices[choice] = None
                waiting += [assumed | {choice: True}, assumed | {choice: False}]
        return list(choices)

    def _walk(self) -> Walk[None]:
        choices = self.front
        base: Selection = (0,) * len(self._program.items)
        met, spent = yield base
        # What is at `low` and before it fails; what is at `high` meets the target, or is not there.
        low, high = 0, len(choices)
        if choices and (choices[0] == base or not spent):
            if choices[0] != base:
                met, spent = yield choices[0]
            if met:
                low, high = -1, 0
        while high - low > 1 and not spent:
            middle = (low + high) // 2
            met, spent = yield choices[middle]
            low, high = (low, middle) if met else (middle, high)
        if high == len(choices) or spent:
            return
        best = choices[high]
        if low >= 0:
            best, spent = yield from self._refine(choices[low], best)
        if not spent:
            yield from self._give_back(best)

    def _refine(self, fails: Selection, meets: Selection) -> Walk[tuple[Selection, bool]]:
        """Halve the gap between the failing and the passing choice; return the last one that passes."""
        worse, better = self._program.total("error", fails), self._program.total("error", meets)
        visited, spent = {fails, meets}, False
        while not spent and better < worse:
            middle = sqrt(worse * better) if better > 0 else worse / 4
            choice = self._cheapest(middle)
            if choice is None or choice in visited:
                break
            visited.add(choice)
            met, spent = yield choice
            if met:
                meets, better = choice, middle
            else:
                worse = min(middle, self._program.total("error", choice))
        return meets, spent

    def _give_back(self, meets: Selection) -> Walk[None]:
        """Yield choices that give layers back to format 0, those first that save the most time for their
        error.

        Errors of single layers are an estimate, and the metric may not mind some of them. Several layers at
        once, half as many after each failure.
        """
        fixed: set[int] = set()
        count = max(1, sum(map(bool, meets)) // 8)
        spent = False
        while not spent and (candidates := self._layers_to_give_back(meets, fixed)[:count]):
            choice = tuple(0 if i in candidates else f for i, f in enumerate(meets))
            met, spent = yield choice
            if met:
                meets = choice
            elif len(candidates) > 1:
                count = len(candidates) // 2
            else:
                fixed |= set(candidates)

    def _layers_to_give_back(self, choice: Selection, fixed: set[int]) -> list[int]:
        """Return the layers that save time in format 0, by time for error, without those in `fixed`."""
        program, ranked = self._program, []
        for i, f in enumerate(choice):
            without = (*choice[:i], 0, *choice[i + 1 :])
            saving = program.total("seconds", choice) - program.total("seconds", without)
            if f and i not in fixed and saving > 0:
                error = program.total("error", without) - program.total("error", choice)
                ranked.append((-saving / max(error, 1e-30), i))
        return [i for _, i in sorted(ranked)]


def _best(tried: dict[Selection, TuneTrial]) -> Selection:
    met = [choice for choice, trial in tried.items() if trial.met]
    if met:
        return min(met, key=lambda choice: (tried[choice].seconds, tried[choice].predicted_error, choice))
    return max(tried, key=lambda choice: (tried[choice].score, -tried[choice].seconds))
