"""The integer program against all choices, one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from intact.tuning.integer_program import FormatProgram, cheapest, front


def random_program(seed: int, layers: int = 5, formats: int = 3) -> FormatProgram:
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
    return FormatProgram(errors, seconds, savings, fixed=0.1)


def every(program: FormatProgram) -> list[tuple[int, ...]]:
    layers, formats = program.errors.shape
    result = product(range(formats), repeat=layers)
    return [item for item in result if all(np.isfinite(program.seconds[i, f]) for i, f in enumerate(item))]


@pytest.mark.parametrize("seed", range(12))
def test_the_cheapest_choice_is_the_cheapest_of_all(seed: int) -> None:
    program = random_program(seed)
    choices = every(program)
    for most in np.quantile([program.error(choice) for choice in choices], [0, 0.1, 0.5, 0.9, 1]):
        within = [program.time(choice) for choice in choices if program.error(choice) <= most]
        result = cheapest(program, most * (1 + 1e-9))
        assert result is not None
        assert program.error(result) <= most * (1 + 1e-6)
        assert program.time(result) == pytest.approx(min(within), abs=1e-12)


def test_nothing_fits_below_the_least_error() -> None:
    program = random_program(0)
    least = min(map(program.error, every(program)))
    assert cheapest(program, 0.9 * least) is None
    assert cheapest(program, program.fixed / 2) is None


@pytest.mark.parametrize("seed", range(6))
def test_no_choice_of_a_front_is_beaten(seed: int) -> None:
    program = random_program(seed)
    result, choices = front(program), every(program)
    figures = [(program.time(item), program.error(item)) for item in result]
    assert figures == sorted(figures)
    assert [error for _, error in figures] == sorted((error for _, error in figures), reverse=True)
    assert figures[0][0] == pytest.approx(min(map(program.time, choices)), abs=1e-12)
    assert figures[-1][1] == pytest.approx(min(map(program.error, choices)))
    for time, error in figures:
        assert not any(program.time(c) < time - 1e-12 and program.error(c) < error - 1e-12 for c in choices)


def test_a_program_without_layers_has_one_choice() -> None:
    empty = FormatProgram(np.zeros((0, 2)), np.zeros((0, 2)), fixed=0.5)
    assert front(empty) == [()]
    assert cheapest(empty, 0.4) is None
