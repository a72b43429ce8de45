"""Move arithmetic with one number in front of a Transpose, which then stays a view of what was computed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from intact.engine.plan import Plan
from intact.engine.steps import Binary, Step, Transpose
from intact.engine.steps.base.wiring import reads, writes


def hoist_numbers(plan: Plan) -> Plan:
    """Let a Binary with a constant number compute before the Transpose in front of it.

    Before: ``Mul(Transpose(x), 0.4) -> attention``, as attention scales queries and keys.
    After:  ``Transpose(Mul(x, 0.4)) -> attention``, whose products read the Transpose where it lies.

    Each element is computed from the same two floats. Guards: floats; nobody else reads the Transpose.
    """
    readers = Counter(name for step in plan.steps for name in reads(step)) + Counter(plan.outputs)
    makers = {name: step for step in plan.steps for name in writes(step)}
    tensors, notes = dict(plan.tensors), list(plan.notes)
    pairs: dict[str, tuple[Step, ...]] = {}  # in place of the Binary that writes a tensor
    gone: set[str] = set()
    for step in plan.steps:
        if not isinstance(step, Binary) or (place := _place(step, plan)) is None:
            continue
        x = getattr(step, place)
        above = makers.get(x)
        if not isinstance(above, Transpose) or readers[x] != 1:
            continue
        if any(plan.tensors[name].codes is not None for name in (above.x, x, step.y)):
            continue
        tensors[x] = replace(tensors[x], shape=plan.tensors[above.x].shape)
        first = replace(step, a=above.x, y=x) if place == "a" else replace(step, b=above.x, y=x)
        pairs[step.y] = first, replace(above, x=x, y=step.y)
        gone.add(x)
        notes.append(f"hoist numbers: {step.name} stands in front of {above.name}")
    if not pairs:
        return plan
    steps = [
        new
        for step in plan.steps
        if gone.isdisjoint(writes(step))
        for new in pairs.get(writes(step)[0], (step,))
    ]
    return replace(plan, steps=tuple(steps), tensors=tensors, notes=tuple(notes))


def _place(step: Binary, plan: Plan) -> str | None:
    """Return the field of the operand beside a constant number; None where there is none, or it adds axes."""
    for place, x, number in (("a", step.a, step.b), ("b", step.b, step.a)):
        array = plan.constants.get(number)
        if array is not None and x in plan.tensors and array.size == 1:
            return place if array.ndim <= len(plan.tensors[x].shape) else None
    return None
