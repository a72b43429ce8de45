"""A running bound of rounding errors: the largest difference of two evaluations in floats, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.plan import Plan
from intact.engine.steps import Binary, Function, Reduce, Step
from intact.engine.steps.base.wiring import reads

Floats = NDArray[np.float64]
_ULP = 2.0**-23
_LEAST = 2.0**-126


def rounding_bound(
    plan: Plan, step: Step, values: Mapping[str, NDArray[Any]], expected: Mapping[str, Floats]
) -> Floats:
    """The most by which the reals that `step` makes may differ between two orders of summing.

    Args:
        plan: Of the step.
        step: One that computes in floats; others add nothing to what they read.
        values: Every tensor of the plan by the reference.
        expected: The bounds of tensors before; one that is missing is exact.
    """
    with np.errstate(all="ignore"):
        if isinstance(step, Binary):
            a, b = (reals(plan, values, name) for name in (step.a, step.b))
            y, (ea, eb) = (
                reals(plan, values, step.y),
                (expected.get(n, np.zeros(())) for n in (step.a, step.b)),
            )
            return _binary(step.function, a, b, ea, eb) + _ULP * np.abs(y)
        if isinstance(step, Reduce) and step.function in ("mean", "sum"):
            x, e = reals(plan, values, step.x), expected.get(step.x, np.zeros(()))
            count = int(np.prod([x.shape[axis] for axis in step.axes]))
            terms = np.broadcast_to(e, x.shape) + count * _ULP / 2 * np.abs(x)
            total = terms.sum(axis=step.axes, keepdims=step.keepdims)
            return np.asarray(total / count if step.function == "mean" and count else total)
        if isinstance(step, Function):
            x, e = reals(plan, values, step.x), expected.get(step.x, np.zeros(()))
            grown = _GROWTH.get(step.function, lambda x, e: e)(x, e)
            return np.asarray(grown + _ULP * np.abs(reals(plan, values, step.y)))
        if step.kind in SUMS:
            largest = np.abs(reals(plan, values, step.y)).max(initial=0)  # type: ignore[attr-defined]
            return np.asarray(16 * _ULP * largest)
    carried = [expected[name] for name in reads(step) if name in expected]
    return np.asarray(max((e.max(initial=0) for e in carried), default=0.0))


SUMS = frozenset({"conv", "linear", "matmul", "float_conv", "float_linear", "float_matmul"})
"""Steps whose sums a float evaluation rounds in another order: by the largest, for what cancels."""


def _binary(function: str, a: Floats, b: Floats, ea: Floats, eb: Floats) -> Floats:
    if function == "mul":
        return np.abs(a) * eb + np.abs(b) * ea + ea * eb
    if function == "div":
        return np.asarray((ea + np.abs(a / b) * eb) / np.maximum(np.abs(b) - eb, _LEAST))
    return ea + eb


_GROWTH: dict[str, Callable[[Floats, Floats], Floats]] = {
    "sqrt": lambda x, e: np.minimum(np.sqrt(e), e / np.sqrt(np.maximum(x, _LEAST))),
    "exp": lambda x, e: np.exp(x) * np.expm1(e),
    "log": lambda x, e: e / np.maximum(x - e, _LEAST),
}
"""Functions that are steeper than a line of slope 1 somewhere."""


def reals(plan: Plan, values: Mapping[str, NDArray[Any]], name: str) -> Floats:
    """A tensor of the plan, or one of its constants, in reals."""
    if name in plan.constants:
        return plan.constants[name].astype(np.float64)
    grid, result = plan.tensors[name].codes, values[name].astype(np.float64)
    return result if grid is None else (result - grid.zero_point) * grid.scale
