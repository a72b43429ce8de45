"""The budget search against all selections, one by one."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest

from intact.errors import MissingExtraError
from intact.ptq.budget_search import BudgetProgram, Selection

Program = BudgetProgram[int]


def random_program(seed: int, layers: int = 5, formats: int = 3) -> Program:
    """Return layers that lack some formats, whose neighbours save time in the last one."""
    rng = np.random.default_rng(seed)
    errors = rng.exponential(1, (layers, formats)) * [1.0, 0.4, 0.0][:formats]
    seconds = np.hstack([np.zeros((layers, 1)), rng.normal(1e-5, 1e-5, (layers, formats - 1))])
    seconds[rng.random(seconds.shape) < 0.2] = np.inf
    seconds[:, 0] = 0
    last = formats - 1
    savings = {
        (i, i + 1, last): float(rng.normal(2e-6, 5e-6))
        for i in range(layers - 1)
        if np.isfinite(seconds[i : i + 2, last]).all()
    }
    bytes_ = rng.integers(1, 100, (layers, formats)).astype(np.float64)
    costs = {"error": errors, "seconds": seconds, "bytes": bytes_}
    return BudgetProgram(range(layers), tuple("abc"[:formats]), costs, {"seconds": savings}, {"error": 0.1})


def every(program: Program) -> list[Selection]:
    result = product(range(len(program.choices)), repeat=len(program.items))
    return [item for item in result if all(program.choice_mask[i, f] for i, f in enumerate(item))]


def error(program: Program, selection: Selection) -> float:
    return program.total("error", selection)


def seconds(program: Program, selection: Selection) -> float:
    return program.total("seconds", selection)


@pytest.mark.parametrize("seed", range(12))
def test_the_cheapest_selection_is_the_cheapest_of_all(seed: int) -> None:
    program = random_program(seed)
    selections = every(program)
    for most in np.quantile([error(program, item) for item in selections], [0, 0.1, 0.5, 0.9, 1]):
        within = [seconds(program, item) for item in selections if error(program, item) <= most]
        result = program.solve("seconds", {"error": most * (1 + 1e-9)})
        assert result is not None
        assert error(program, result) <= most * (1 + 1e-6)
        assert seconds(program, result) == pytest.approx(min(within), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_every_limit_is_kept(seed: int) -> None:
    program = random_program(seed)
    selections = every(program)
    most = float(np.median([error(program, item) for item in selections]))
    size = float(np.median([program.total("bytes", item) for item in selections]))
    within = [i for i in selections if error(program, i) <= most and program.total("bytes", i) <= size]
    result = program.solve("seconds", {"error": most * (1 + 1e-9), "bytes": size})
    assert result in within
    assert seconds(program, result) == pytest.approx(min(seconds(program, i) for i in within), abs=1e-12)


def test_nothing_fits_below_the_least_error() -> None:
    program = random_program(0)
    least = min(error(program, item) for item in every(program))
    assert program.solve("seconds", {"error": 0.9 * least}) is None
    assert program.solve("seconds", {"error": program.fixed["error"] / 2}) is None


@pytest.mark.parametrize("seed", range(6))
def test_no_selection_of_a_front_is_beaten(seed: int) -> None:
    program = random_program(seed)
    result, selections = program.front("seconds", "error"), every(program)
    figures = [(seconds(program, item), error(program, item)) for item in result]
    assert figures == sorted(figures)
    assert [e for _, e in figures] == sorted((e for _, e in figures), reverse=True)
    assert figures[0][0] == pytest.approx(min(seconds(program, item) for item in selections), abs=1e-12)
    assert figures[-1][1] == pytest.approx(min(error(program, item) for item in selections))
    for t, e in figures:
        assert not any(seconds(program, i) < t - 1e-12 and error(program, i) < e - 1e-12 for i in selections)


def test_a_program_without_layers_has_one_selection() -> None:
    none = np.zeros((0, 2))
    empty = BudgetProgram[int]([], ("a", "b"), {"error": none, "seconds": none}, fixed={"error": 0.5})
    assert empty.front("seconds", "error") == [()]
    assert empty.solve("seconds", {"error": 0.4}) is None
    assert empty.upgrades("error", "seconds") == []


def test_without_limits_each_item_has_its_cheapest_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    rows = [{"int8": (2.0,), "float": (1.0,)}, {"int8": (2.0,)}, {"int8": (1.0,), "float": (1.0,)}]
    program = BudgetProgram.of_rows("abc", ("int8", "float"), ("seconds",), rows)
    assert program.solve("seconds") == (1, 0, 0)
    assert program.items_with("float", (1, 0, 0)) == ["a"]
    with pytest.raises(MissingExtraError, match="scipy"):
        program.solve("seconds", {"seconds": 9.0})


@pytest.mark.parametrize("seed", range(6))
def test_upgrades_keep_their_budget_and_lower_the_error(seed: int) -> None:
    program = random_program(seed)
    for budget in (0.0, 1e-5, 3e-5, np.inf):
        steps = program.upgrades("error", "seconds", budget)
        assert sum(step.price for step in steps) <= budget
        assert all(step.gain > 0 and step.price >= 0 for step in steps)
        assert all(program.choice_mask[step.item, program.choices.index(step.choice)] for step in steps)
