"""Time the kernels that the layers of a plan can use, within runs of the whole plan.

For each form one program is bound that has it wherever it can, and the programs take turns: each run
times all layers at once, with the caches as the layers around leave them. A layer timed alone finds its
weights near the core, and forms that read them often look better than they are. The fastest run of each layer
counts, for other work on the machine only adds. Layers that are alike share one figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from intact.engine.backend import Packed
from intact.engine.cpu.bound_plan import Bound
from intact.engine.kernel_choices import FormChooser, FormTrial, name_of

LEAST, MOST = 3, 25
"""Turns of each program, whatever the budget."""
WARM, COUNTED = 2, 3
"""Runs of a turn: the first bring a program's own weights near the core, as they lie when it runs alone."""

Run = Callable[[], NDArray[np.float64]]
"""Runs a program once; returns the seconds of each native step."""


class Stopwatch(Protocol):
    """Measures: a real one, or a test's."""

    def now(self) -> float:
        """Return seconds since some time."""

    def seconds(self, bound: Bound, run: Run) -> NDArray[np.float64]:
        """Return the seconds of each native step in one run."""


class Clock:
    """The stopwatch of this machine."""

    def now(self) -> float:
        return perf_counter()

    def seconds(self, bound: Bound, run: Run) -> NDArray[np.float64]:
        return run()


def measure(
    bind: Callable[[FormChooser], Bound],
    runner: Callable[[Bound], Run],
    timings: Mapping[str, float],
    seconds: float,
    stopwatch: Stopwatch,
) -> dict[str, float]:
    """Time every form of the layers of which nothing is known.

    Args:
        bind: Makes the plan native with what a chooser says.
        runner: What runs it once.
        timings: Seconds by name, of this machine: layers in it are not timed again.
        seconds: For everything, weights that have to be packed included; every program has `LEAST` turns even
            where that takes longer.
        stopwatch: Measures.

    Returns:
        Seconds by name: for each layer all its forms, or none.
    """
    end = stopwatch.now() + seconds
    first = bind(FormTrial("", timings))
    forms = [form for choice in first.choices.values() if choice.by == "trial" for form in choice.forms]
    if len(set(forms)) < 2:
        return {}
    programs = [first]
    for form in dict.fromkeys(forms):
        trial = bind(FormTrial(form, timings))
        if any(choice.form != choice.default for choice in trial.choices.values() if choice.by == "trial"):
            programs.append(trial)
    return _averages(programs, _fastest(programs, runner, end, stopwatch))


def _fastest(
    programs: list[Bound], runner: Callable[[Bound], Run], end: float, stopwatch: Stopwatch
) -> list[NDArray[np.float64]]:
    """Time each program, and return the fastest run of each step."""
    runs = [runner(bound) for bound in programs]
    best = [np.full(len(bound.labels), np.inf) for bound in programs]
    for turn in range(MOST):
        if turn >= LEAST and stopwatch.now() >= end:
            break
        for bound, run, fastest in zip(programs, runs, best, strict=True):
            for _ in range(WARM):
                run()
            for _ in range(COUNTED):
                np.minimum(fastest, stopwatch.seconds(bound, run), out=fastest)
    return best


def _averages(programs: list[Bound], fastest: list[NDArray[np.float64]]) -> dict[str, float]:
    """Average the seconds of each form of each layer.

    The default's are those of the first program alone: what runs more often would seem faster.
    """
    layer_seconds: dict[str, dict[str, list[float]]] = {}
    for place, (bound, seconds) in enumerate(zip(programs, fastest, strict=True)):
        for index, choice in bound.choices.items():
            counts = place == 0 or choice.form != choice.default
            if choice.by == "trial" and counts:
                forms = layer_seconds.setdefault(choice.layer, {})
                forms.setdefault(choice.form, []).append(float(seconds[index]))
    return {
        name_of(layer, form): sum(each) / len(each)
        for layer, forms in layer_seconds.items() if len(forms) > 1
        for form, each in forms.items()
    }  # fmt: skip


class Overlay(MutableMapping[tuple[str, str], NDArray[Any]]):
    """Packed weights over others: what is missing above is read below, and stays above then.

    Args:
        below: Never written to.
        above: What is packed goes here.
    """

    def __init__(self, below: Packed, above: Packed) -> None:
        self._below, self._above = below, above

    def __getitem__(self, key: tuple[str, str]) -> NDArray[Any]:
        if key not in self._above:
            self._above[key] = self._below[key]
        return self._above[key]

    def __setitem__(self, key: tuple[str, str], array: NDArray[Any]) -> None:
        self._above[key] = array

    def __delitem__(self, key: tuple[str, str]) -> None:
        del self._above[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter({*self._below, *self._above})

    def __len__(self) -> int:
        return len({*self._below, *self._above})

    def __contains__(self, key: object) -> bool:
        return key in self._above or key in self._below
