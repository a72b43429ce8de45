"""The meaning of a plan, in plain NumPy over `numerics`: what every native engine equals. NORMATIVE."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from intact.engine.plan import Plan
from intact.engine.reference.custom import RUNNERS as CALLS
from intact.engine.reference.fallback import RUNNERS as FALLBACK
from intact.engine.reference.gemm import RUNNERS as SUMS
from intact.engine.reference.run import Run, Runner, check_input
from intact.engine.reference.shape import RUNNERS as SHAPES
from intact.engine.reference.values import RUNNERS as VALUES
from intact.engine.steps import FallbackSubgraph, Step
from intact.errors import IntactError, QuantValueError

RUNNERS: dict[str, Runner] = {**SUMS, **SHAPES, **VALUES, **FALLBACK, **CALLS}
"""What each kind of step does."""


def evaluate(
    plan: Plan, inputs: Mapping[str, NDArray], given: Mapping[str, NDArray] | None = None
) -> dict[str, NDArray[np.generic]]:
    """Every tensor of `plan` for some inputs: codes as int8 or uint8, everything else as it is.

    Args:
        plan: A checked plan.
        inputs: The inputs by name; where one has codes, its codes.
        given: What subgraphs have made elsewhere, by name, to go on from; None: they run here.
    Raises:
        QuantValueError: An input is missing, or has another dtype or shape than the plan says.
    """
    run = Run(plan)
    for name in plan.inputs:
        run.bind(name, check_input(plan, name, inputs))
    for step in plan.steps:
        if given is not None and isinstance(step, FallbackSubgraph):
            for name in step.ys:
                run.bind(name, given[name])
        else:
            _run(run, step)
    return run.arrays


def _run(run: Run, step: Step) -> None:
    try:
        RUNNERS[step.kind](run, step)
    except IntactError:
        raise
    except ValueError as error:  # of NumPy, about shapes that fit each other for other inputs alone
        where, fix = f"step '{step.name}'", "give inputs of the shapes that the model was made for"
        raise QuantValueError(where, f"'{error}'", "sizes that fit each other", fix) from error


__all__ = ["RUNNERS", "evaluate"]
