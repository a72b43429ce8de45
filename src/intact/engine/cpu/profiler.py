"""Sum the times of native steps for each step of the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from intact.engine.cpu.bound_plan import Bound
from intact.engine.cpu.execute import Seconds
from intact.engine.plan import Plan
from intact.engine.profile import EngineProfile, Timing, work_of
from intact.engine.steps import Call, Step


def profile_of(plan: Plan, bound: Bound, runs: Sequence[Seconds]) -> EngineProfile:
    """Sum the timings of several runs by step of the plan."""
    native = np.median([run.native for run in runs], axis=0)
    timings = []
    parts: dict[Step | None, list[int]] = {}
    for index, label in enumerate(bound.labels):
        parts.setdefault(label, []).append(index)
    for step in plan.steps:
        own = parts.get(step, ())
        if step.native:
            seconds = float(sum(native[i] for i in own))
            names = tuple(dict.fromkeys(bound.program.kernels[i] for i in own))
        else:
            seconds = float(np.median([run.fallbacks[step.name] for run in runs]))
            names = ("python" if isinstance(step, Call) else "onnxruntime",)
        work = work_of(plan, bound.shapes, step)
        chosen = "+".join(dict.fromkeys(bound.choices[i].by for i in own if i in bound.choices))
        timings.append(Timing(step.name, step.kind, names, seconds, *work, _loops(bound, own), chosen))
    for index in parts.get(None, ()):
        timings.append(Timing("", "copy", (bound.program.kernels[index],), float(native[index]), 0, 0))
    return EngineProfile(tuple(timings))


def _loops(bound: Bound, parts: Sequence[int]) -> dict[str, float]:
    """Return the shares of the inner loops of several native steps, the largest first."""
    products: Counter[str] = Counter()
    for index in parts:
        products.update(bound.program.loops(index))
    return {name: count / products.total() for name, count in products.most_common()}
