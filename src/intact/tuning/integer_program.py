"""Chooses formats by an integer program that is solved exactly.

One format for each layer, as little time as possible, and errors that add up to no more than a bound
(multiple-choice knapsack; Yao et al. 2021, "HAWQ-V3", chose bits by latency in this way). Two neighbours of
one format can cost less together than each of them alone, because nothing is converted between them: such
pairs have a term of their own, which becomes linear by a variable that both bound (McCormick 1976).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact.errors import MissingExtraError

POINTS_PER_DECADE, DECADES = 6, 4
"""Bounds of the error that a front is made of: steps of 1.7 dB, down to a 10,000th."""

Choice = tuple[int, ...]
"""The format of each layer, by its index."""


@dataclass(frozen=True, eq=False)
class FormatProgram:
    """Holds the measured cost of each format of each layer.

    Attributes:
        errors: Of the outputs with this layer alone so, float64 [layers, formats].
        seconds: What a run takes longer than with the layer in format 0, float64 [layers, formats]; inf: the
            layer cannot have that format.
        savings: Seconds by (layer, other layer, format): what both take less than the sum says.
        fixed: Error of all that has no choice.
    """

    errors: NDArray[np.float64]
    seconds: NDArray[np.float64]
    savings: Mapping[tuple[int, int, int], float] = field(default_factory=dict)
    fixed: float = 0.0

    def error(self, choice: Choice) -> float:
        """Return the expected error of a choice; squared errors of single layers nearly add up."""
        return self.fixed + sum(float(self.errors[i, f]) for i, f in enumerate(choice))

    def time(self, choice: Choice) -> float:
        """Return the seconds of a choice beyond those with format 0 everywhere."""
        alone = sum(float(self.seconds[i, f]) for i, f in enumerate(choice))
        return alone - sum(s for (a, b, f), s in self.savings.items() if choice[a] == choice[b] == f)


def cheapest(program: FormatProgram, most: float) -> Choice | None:
    """Return the fastest choice whose error is at most `most`; None where there is none.

    Raises:
        MissingExtraError: SciPy, whose solver this is, is not installed.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ImportError as error:
        raise MissingExtraError.of(error.name or "scipy", "tune", "choosing formats") from error
    layers, formats = program.errors.shape
    if not layers:
        return () if program.fixed <= most else None
    room, count, pairs = most - program.fixed, layers * formats, len(program.savings)
    if room < 0:
        return None
    unit = max(float(np.abs(program.seconds[np.isfinite(program.seconds)]).max(initial=0)), 1e-12)
    offered = np.isfinite(program.seconds).ravel()
    costs = np.where(offered, program.seconds.ravel(), 0) / unit
    rows, lower, upper = _pair_rows(program)
    choice_rows = np.hstack([np.kron(np.eye(layers), np.ones(formats)), np.zeros((layers, pairs))])
    errors = program.errors.ravel() / (room or 1.0)
    offered &= errors <= 1 if room else errors <= 0
    error_row = np.append(np.where(offered, errors, 0), np.zeros(pairs))
    # Without presolve: with it HiGHS prints on standard output where it mends a rounded solution.
    solution = milp(
        np.append(costs, [-saving / unit for saving in program.savings.values()]),
        integrality=np.ones(count + pairs),
        bounds=Bounds(0, np.append(offered.astype(float), np.ones(pairs))),
        constraints=[
            LinearConstraint(choice_rows, 1, 1),
            LinearConstraint(error_row[None], -np.inf, 1.0),
            *([LinearConstraint(rows, lower, upper)] if pairs else []),
        ],
        options={"mip_rel_gap": 0.0, "presolve": False},
    )
    if solution.x is None:
        return None
    return tuple(np.argmax(solution.x[:count].reshape(layers, formats), axis=1).tolist())


def _pair_rows(program: FormatProgram) -> tuple[NDArray, NDArray, NDArray]:
    """Return the constraints y <= a, y <= b and y >= a + b - 1 for the variable y of each pair."""
    formats, count = program.errors.shape[1], program.errors.size
    rows, lower, upper = [], [], []
    for number, (a, b, f) in enumerate(program.savings):
        for first, second, least, most in ((-1, 0, -np.inf, 0), (0, -1, -np.inf, 0), (-1, -1, -1, np.inf)):
            row = np.zeros(count + len(program.savings))
            row[count + number], row[a * formats + f], row[b * formats + f] = 1, first, second
            rows.append(row)
            lower.append(least)
            upper.append(most)
    return np.array(rows), np.array(lower), np.array(upper)


def front(program: FormatProgram) -> list[Choice]:
    """Return the Pareto front of choices over a range of error bounds, the fastest first."""
    fastest = cheapest(program, np.inf if not program.errors.size else _everything(program))
    if fastest is None:
        return []
    most, choices = program.error(fastest), {fastest}
    least = program.fixed + float(np.where(np.isfinite(program.seconds), program.errors, np.inf).min(1).sum())
    bounds = [most * 10 ** (-step / POINTS_PER_DECADE) for step in range(1, DECADES * POINTS_PER_DECADE + 1)]
    for bound in [*(bound for bound in bounds if bound > least), least]:
        choice = cheapest(program, bound)
        if choice is not None:
            choices.add(choice)
    return pareto_front(program, choices)


def pareto_front(program: FormatProgram, choices: set[Choice]) -> list[Choice]:
    """Return those of `choices` that no other one beats in both time and error, the fastest first."""
    ranked = sorted(choices, key=lambda choice: (program.time(choice), program.error(choice), choice))
    best_choices: list[Choice] = []
    for choice in ranked:
        if not best_choices or program.error(choice) < program.error(best_choices[-1]):
            best_choices.append(choice)
    return best_choices


def _everything(program: FormatProgram) -> float:
    """Return a bound that the error of no choice exceeds."""
    return program.fixed + float(program.errors.max(1, initial=0).sum()) * 2 + 1e-30
