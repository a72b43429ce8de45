"""Budget search: one choice for each item, at the least cost in one column and within limits in others.

Every search for formats, bits or precisions builds a `BudgetProgram` and asks one of two solvers. `solve` is
exact: a multiple-choice knapsack as an integer program (Yao et al. 2021, "HAWQ-V3", chose bits by latency in
this way). `upgrades` is greedy and needs no solver: what a prefix of its steps spends is known, so that a
caller can stop where the next step is not worth its price.

Two neighbours with one choice can cost less together than the sum says, because nothing is converted between
them. Such pairs have a term of their own, which becomes linear by a variable that both bound (McCormick
1976).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from intact.errors import MissingExtraError
from intact.processes import cached_property

POINTS_PER_DECADE, DECADES = 6, 4
"""Bounds that a front is made of: steps of 1.7 dB, down to a 10,000th."""

Selection = tuple[int, ...]
"""The choice of each item, by its index."""

Pair = tuple[int, int, int]
"""Two items and the choice that both have."""

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, eq=False)
class BudgetProgram(Generic[ItemT]):
    """Holds the cost of each choice of each item in every column.

    Attributes:
        items: Layers or groups of them.
        choices: Names of the choices. The first is what an item has unless told.
        costs: By column (an error, seconds, bytes), float64 [items, choices]; inf: the item cannot have that
            choice.
        savings: By column, what two items with the same choice cost less than the sum.
        fixed: By column, the cost of all that has no choice.
    """

    items: Sequence[ItemT]
    choices: Sequence[str]
    costs: Mapping[str, NDArray[np.float64]]
    savings: Mapping[str, Mapping[Pair, float]] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_rows(
        cls, items: Sequence[ItemT], choices: Sequence[str], columns: Sequence[str],
        rows: Iterable[Mapping[str, Sequence[float]]],
    ) -> BudgetProgram[ItemT]:  # fmt: skip
        """Build a program whose items need not all have the same choices.

        Args:
            items: Layers or groups of them.
            choices: Names of all choices.
            columns: Names of the columns.
            rows: For each item, the costs in the order of `columns` of the choices that it can have.
        """
        lacking = (inf,) * len(columns)
        table = np.array([[row.get(choice, lacking) for choice in choices] for row in rows], np.float64)
        table = table.reshape(len(items), len(choices), len(columns))
        return cls(items, choices, {name: table[..., index] for index, name in enumerate(columns)})

    @cached_property
    def choice_mask(self) -> NDArray[np.bool_]:
        """Mask [items, choices] of the choices that each item can have."""
        return np.isfinite(sum(self.costs.values(), np.zeros((len(self.items), len(self.choices)))))

    def total(self, column: str, selection: Selection) -> float:
        """Return the cost of a selection in one column; squared errors of single layers nearly add up."""
        costs, savings = self.costs[column], self.savings.get(column, {})
        alone = self.fixed.get(column, 0.0) + sum(float(costs[i, c]) for i, c in enumerate(selection))
        return alone - sum(s for (a, b, c), s in savings.items() if selection[a] == selection[b] == c)

    def items_with(self, choice: str, selection: Selection | None) -> list[ItemT]:
        """Return the items that have a choice in a selection; no selection, no item."""
        return [i for i, c in zip(self.items, selection or (), strict=False) if self.choices[c] == choice]

    def range_of(self, column: str) -> tuple[float, float]:
        """Return the least cost of any selection in a column, and a bound that none exceeds."""
        costs, fixed = self.costs[column], self.fixed.get(column, 0.0)
        least = np.where(self.choice_mask, costs, inf).min(1, initial=inf).sum()
        most = np.where(self.choice_mask, costs, 0.0).max(1, initial=0.0).sum()
        return fixed + float(least), fixed + float(most) * 2 + 1e-30

    def front(self, minimized: str, bounded: str) -> list[Selection]:
        """Return the Pareto front of two columns over a range of bounds, from the least of `minimized` on.

        Raises:
            MissingExtraError: SciPy, whose solver this is, is not installed.
        """
        least, most = self.range_of(bounded)
        cheapest = self.solve(minimized, {bounded: most})
        if cheapest is None:
            return []
        steps = range(1, DECADES * POINTS_PER_DECADE + 1)
        bounds = [self.total(bounded, cheapest) * 10 ** (-step / POINTS_PER_DECADE) for step in steps]
        selections = {cheapest}
        for bound in [*(bound for bound in bounds if bound > least), least]:
            if (selection := self.solve(minimized, {bounded: bound})) is not None:
                selections.add(selection)
        ranked = sorted((self.total(minimized, s), self.total(bounded, s), s) for s in selections)
        best: list[tuple[float, float, Selection]] = []
        for candidate in ranked:
            if not best or candidate[1] < best[-1][1]:
                best.append(candidate)
        return [selection for _, _, selection in best]

    def solve(self, minimized: str, limits: Mapping[str, float] | None = None) -> Selection | None:
        """Return the selection that costs least; None where none keeps the limits.

        Args:
            minimized: The column whose sum is minimized.
            limits: The most that other columns may add up to.
        Raises:
            MissingExtraError: SciPy, whose solver this is, is not installed. A program without limits and
                savings does without.
        """
        rooms = {name: limit - self.fixed.get(name, 0.0) for name, limit in (limits or {}).items()}
        if any(room < 0 for room in rooms.values()) or not self.choice_mask.any(1).all():
            return None
        if not self.items:
            return ()
        savings = self.savings.get(minimized, {})
        if not rooms and not savings:
            return tuple(np.where(self.choice_mask, self.costs[minimized], inf).argmin(1).tolist())
        return self._solve_exactly(self.costs[minimized], savings, rooms)

    def _solve_exactly(
        self, objective: NDArray[np.float64], savings: Mapping[Pair, float], rooms: Mapping[str, float]
    ) -> Selection | None:
        try:
            from scipy.optimize import Bounds, LinearConstraint, milp
        except ImportError as error:
            raise MissingExtraError.of(error.name or "scipy", "tune", "choosing formats") from error
        items, choices = objective.shape
        pairs, offered = len(savings), self.choice_mask.ravel()
        unit = max(float(np.abs(objective[self.choice_mask]).max(initial=0)), 1e-12)
        costs = np.where(offered, objective.ravel(), 0) / unit
        choice_rows = np.hstack([np.kron(np.eye(items), np.ones(choices)), np.zeros((items, pairs))])
        constraints = [LinearConstraint(choice_rows, 1, 1)]
        for column, room in rooms.items():
            shares = self.costs[column].ravel() / (room or 1.0)
            offered = offered & (shares <= 1 if room else shares <= 0)
            row = np.append(np.where(offered, shares, 0), np.zeros(pairs))
            constraints.append(LinearConstraint(row[None], -np.inf, 1.0))
        if pairs:
            constraints.append(LinearConstraint(*_pair_rows(savings, items, choices)))
        # Without presolve: with it HiGHS prints on standard output where it mends a rounded solution.
        solution = milp(
            np.append(costs, [-saving / unit for saving in savings.values()]),
            integrality=np.ones(costs.size + pairs),
            bounds=Bounds(0, np.append(offered.astype(float), np.ones(pairs))),
            constraints=constraints,
            options={"mip_rel_gap": 0.0, "presolve": False},
        )
        if solution.x is None:
            return None
        return tuple(np.argmax(solution.x[: costs.size].reshape(items, choices), axis=1).tolist())

    def upgrades(
        self, lowered: str, paid: str, budget: float = inf, *, entry: str | None = None, grain: float = 1e-4
    ) -> list[Upgrade[ItemT]]:
        """Return steps from the first choices on, at each point the one that gains most for its price.

        Args:
            lowered: The column that steps lower, an error.
            paid: The column that they may raise.
            budget: The most that all steps together may add to `paid`.
            entry: A choice that items that can have it take before any other.
            grain: A price below this counts as this much.
        """
        errors, prices, rows = self.costs[lowered], self.costs[paid], np.arange(len(self.items))
        allowed = self.choice_mask.copy()
        if entry in self.choices:
            index = self.choices.index(entry)
            allowed[allowed[:, index]] = np.arange(len(self.choices)) == index
        now, left, steps = np.zeros(len(self.items), int), budget, list[Upgrade[ItemT]]()
        while rows.size:
            gains = np.where(allowed, errors[rows, now][:, None] - np.where(allowed, errors, 0), 0)
            extra = np.where(allowed, np.where(allowed, prices, 0) - prices[rows, now][:, None], 0)
            fitting = (gains > 0) & (extra >= 0) & (extra <= left)
            if not fitting.any():
                break
            rates = np.where(fitting, gains / np.maximum(extra, grain), -inf)
            item, choice = divmod(int(rates.argmax()), len(self.choices))
            gain, price = float(gains[item, choice]), float(extra[item, choice])
            steps.append(Upgrade(self.items[item], self.choices[choice], gain, price))
            now[item], allowed[item], left = choice, self.choice_mask[item], left - price
        return steps


@dataclass(frozen=True)
class Upgrade(Generic[ItemT]):
    """Describes one item that gets another choice.

    Attributes:
        item: The item.
        choice: Its new choice.
        gain: What the lowered column loses, if costs add up.
        price: What the paid column gains.
    """

    item: ItemT
    choice: str
    gain: float
    price: float


def _pair_rows(savings: Iterable[Pair], items: int, choices: int) -> tuple[NDArray, NDArray, NDArray]:
    """Return the constraints y <= a, y <= b and y >= a + b - 1 for the variable y of each pair."""
    pairs, count = list(savings), items * choices
    rows, lower, upper = [], [], []
    for number, (a, b, c) in enumerate(pairs):
        for first, second, least, most in ((-1, 0, -np.inf, 0), (0, -1, -np.inf, 0), (-1, -1, -1, np.inf)):
            row = np.zeros(count + len(pairs))
            row[count + number], row[a * choices + c], row[b * choices + c] = 1, first, second
            rows.append(row)
            lower.append(least)
            upper.append(most)
    return np.array(rows), np.array(lower), np.array(upper)
