"""Time one step of a plan alone: what the benchmarks of kernels share. Run by itself it does nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.kernel_paths import environment

from intact.engine.cpu.bound_plan import PreparedPlan
from intact.engine.cpu.fallback import FallbackSessions
from intact.engine.kernel_choices import FormTrial
from intact.engine.plan import Plan
from intact.kernels import ThreadPool


def best_time(
    plan: Plan, feeds: Mapping[str, NDArray[Any]], step: str, *, kernels: str = "", threads: int = 1,
    runs: int = 60, form: str = "",
) -> tuple[float, dict[str, int]]:  # fmt: skip
    """Return the seconds of the fastest run of a step, copies around it not counted, and its inner loops.

    Args:
        plan, feeds: A plan, and its inputs.
        step: The name of the step.
        kernels: Names of kernels that are forced.
        threads: How many run the step.
        runs: How many times it runs.
        form: The kernel that a layer takes which has several; "": the cost model's.
    """
    with environment(INTACT_FORCE_KERNEL=kernels):
        prepared = PreparedPlan(plan, FallbackSessions(plan, 1))
        if form:
            prepared.host.chooser = FormTrial(form, {})
        bound = prepared.bind({name: x.shape for name, x in feeds.items()}, ThreadPool(threads), {})
    mine = [i for i, label in enumerate(bound.labels) if label is not None and label.name == step]
    loops = {name: n for i in mine for name, n in bound.program.loops(i).items()}
    outputs = [np.empty(bound.shape(n), plan.tensors[n].stored_dtype) for n in plan.outputs]
    context = bound.program.take()
    bound.place_arrays(context, [np.ascontiguousarray(feeds[n]) for n in plan.inputs], outputs)
    seconds = np.zeros(len(bound.program))
    best = np.inf
    for _ in range(runs):
        context.run(0, len(bound.program), seconds)
        best = min(best, float(seconds[mine].sum()))
    return best, loops
