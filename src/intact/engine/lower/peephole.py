"""Small rewrites of the finished list of steps: two that move data as one, padding as a convolution's own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from intact.engine.plan import Plan
from intact.engine.steps import Conv, Pad, Slice, Step
from intact.engine.wiring import reads, writes


def join_steps(plan: Plan) -> Plan:
    """Before: ``Slice -> Slice``, ``Pad -> Conv``.  After: one Slice, one Conv.

    Guards: nobody else reads what stands in between; the Pad pads height and width alone.
    """
    readers = Counter(name for step in plan.steps for name in reads(step)) + Counter(plan.outputs)
    makers: dict[str, Step] = {}
    notes, gone = list(plan.notes), set[str]()
    for step in plan.steps:
        x = getattr(step, "x", "")
        above = makers.get(x) if readers[x] == 1 else None
        joined = _join(above, step) if above is not None else None
        if joined is not None and above is not None:
            notes.append(f"join steps: {above.name} is part of {step.name}")
            gone.add(x)
            step = joined
        makers.update(dict.fromkeys(writes(step), step))
    kept: dict[str, Step] = {}
    for step in makers.values():
        if not gone.intersection(writes(step)):
            kept.setdefault(writes(step)[0], step)
    steps = tuple(kept.values())
    tensors = {name: tensor for name, tensor in plan.tensors.items() if name not in gone}
    return replace(plan, steps=steps, tensors=tensors, notes=tuple(notes))


def _join(above: Step, step: Step) -> Step | None:
    if isinstance(above, Slice) and isinstance(step, Slice):
        pairs = zip(above.starts, above.steps, step.starts, strict=True)
        starts = tuple(start + hop * more for start, hop, more in pairs)
        steps = tuple(a * b for a, b in zip(above.steps, step.steps, strict=True))
        return replace(step, nodes=above.nodes + step.nodes, x=above.x, starts=starts, steps=steps)
    if isinstance(above, Pad) and isinstance(step, Conv) and not any(above.pads[0] + above.pads[1]):
        (top, bottom), (left, right) = above.pads[2:]
        pads = tuple(a + b for a, b in zip(step.pads, (top, left, bottom, right), strict=True))
        nodes = above.nodes + step.nodes
        return replace(step, nodes=nodes, x=above.x, pads=(pads[0], pads[1], pads[2], pads[3]))
    return None
