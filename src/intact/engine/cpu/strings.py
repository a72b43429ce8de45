"""Exclude tensors of strings from memory planning: they are Python objects."""

from __future__ import annotations

from dataclasses import replace

from intact.engine.plan import Plan
from intact.engine.steps import STRING, Call, FallbackSubgraph, Step


def without_strings(plan: Plan) -> Plan:
    """What memory is planned for: the same steps without the tensors of strings that they read and make."""
    strings = {name for name, tensor in plan.tensors.items() if tensor.dtype == STRING}
    if not strings:
        return plan

    def numeric_names(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in strings)

    def strip(step: Step) -> Step:
        if isinstance(step, Call | FallbackSubgraph):  # no kernel has strings: a plan's check says so
            return replace(step, xs=numeric_names(step.xs), ys=numeric_names(step.ys))
        return step

    return replace(
        plan, steps=tuple(strip(step) for step in plan.steps),
        tensors={name: tensor for name, tensor in plan.tensors.items() if name not in strings},
        inputs=numeric_names(plan.inputs), outputs=numeric_names(plan.outputs),
    )  # fmt: skip
