"""Calls of registered operators: the same body that an engine runs."""

from __future__ import annotations

from intact.engine.custom import call
from intact.engine.reference.run import Run, Runner
from intact.engine.steps import Call


def _call(run: Run, step: Call) -> None:
    inputs = [(run.array(name), run.grid(name)) for name in step.xs]
    made = call(step, inputs, [run.grid(name) for name in step.ys])
    for name, array in zip(step.ys, made, strict=True):
        run.bind(name, array)


RUNNERS: dict[str, Runner] = {"call": _call}
