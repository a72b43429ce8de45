"""Compute how a plan's work divides among threads, without running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intact.engine.backend import Options
from intact.engine.cpu.backend import CpuBackend
from intact.engine.plan import Plan
from intact.engine.profile import work_of
from intact.engine.steps import Shape
from intact.engine.steps.base.wiring import writes

_FAMILIES = ("gemm", "winograd", "depthwise", "matmul", "float")
"""Of kernels that form products: a step's other native steps copy, or fill halos."""


@dataclass(frozen=True)
class Division:
    """Describes how one native step is divided among threads.

    Attributes:
        step, kernel: The plan's step, and what runs.
        shape: Of what the step makes.
        share: The work of the thread that has the most, over what each had if all had the same.
        items: Pieces that there are to deal out.
        products: Of the plan's step, shared out over its native steps.
    """

    step: str
    kernel: str
    shape: Shape
    share: float
    items: int
    products: float


def divisions(plan: Plan, shapes: Mapping[str, Shape], threads: int) -> list[Division]:
    """Compute how native steps that form products divide among threads, without running them.

    Args:
        plan: The plan.
        shapes: Of its inputs.
        threads: That would share the work.
    """
    bound = CpuBackend(Options(threads)).compile(plan, shapes).bound
    program = bound.program
    places: dict[str, list[int]] = {}
    for index, label in enumerate(bound.labels):
        if label is not None and program.kernels[index].partition("_")[0] in _FAMILIES:
            places.setdefault(label.name, []).append(index)
    result = []
    for step in plan.steps:
        products, _ = work_of(plan, bound.shapes, step)
        own = places.get(step.name, [])
        for index in own if products > 0 else ():
            shape, kernel = bound.shapes[writes(step)[0]], program.kernels[index]
            share, items = program.largest_share(index), program.items(index)
            result.append(Division(step.name, kernel, shape, share, items, products / len(own)))
    return result


def speedup(divisions: list[Division], threads: int) -> float:
    """Compute the largest gain of so many threads, if products alone take time, each the same."""
    products = sum(d.products for d in divisions)
    return threads * products / max(1.0, sum(d.products * d.share for d in divisions))
