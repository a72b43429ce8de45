"""Indices that are constants of the plan."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding
from intact.engine.steps import ChosenLinear, Gather, GatherElements, GatherRows, ScatterElements, ScatterRows


def check_constant_index(
    step: ChosenLinear | Gather | GatherElements | GatherRows | ScatterElements | ScatterRows,
    binding: Binding,
) -> None:
    """Refuse a constant index of what is not there, before any run.

    Raises:
        QuantValueError: One is out of range; names the constant.
    """
    if step.index in binding.plan.constants:
        shape = binding.view(step.x).sizes
        step.check_index(binding.array(step.index), tuple(shape), f"constant '{step.index}'")
