"""Where the time of a run goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from intact.engine.bind.bound import Bound
from intact.engine.bind.core import dtype_of
from intact.engine.execute import Seconds
from intact.engine.plan import Plan
from intact.engine.steps import OUTSIDE, Call, Conv, ConvTranspose, Linear, MatMul, Step
from intact.engine.wiring import constants, reads, writes
from intact.terminal import printable


@dataclass(frozen=True)
class Timing:
    """What one step of a plan took.

    Attributes:
        name, kind: The step's.
        kernels: What ran: the native steps' own names; "onnxruntime" for a subgraph.
        seconds: Median over the runs.
        macs: Multiplications of codes, of which each is one accumulation too.
        nbytes: Of the tensors and constants that it reads and writes, each once.
        loops: The share of products that each inner loop forms, padding included; empty where there is one
            loop. A kernel that groups has one for each number of steps that share a 16-bit sum.
    """

    name: str
    kind: str
    kernels: tuple[str, ...]
    seconds: float
    macs: int
    nbytes: int
    loops: dict[str, float] = field(default_factory=dict)

    @property
    def gmacs(self) -> float:
        """10^9 multiplications a second."""
        return self.macs / self.seconds / 1e9 if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Profile:
    """The timings of all steps, in order.

    Attributes:
        timings: One for each step of the plan; copies of inputs and outputs are their own.
    """

    timings: tuple[Timing, ...]

    @property
    def seconds(self) -> float:
        """Of all steps together."""
        return sum(t.seconds for t in self.timings)

    def __str__(self) -> str:
        rows = [
            f"{t.seconds * 1e6:9.1f}  {t.seconds / max(self.seconds, 1e-12):6.1%}  {t.gmacs:8.1f}  "
            f"{t.nbytes / 1024:9.1f}  {t.kind:<14}  {'+'.join(t.kernels):<20}  "
            f"{printable(t.name)}{_said(t.loops)}"
            for t in self.timings
        ]
        head = f"{'us':>9}  {'share':>6}  {'GMAC/s':>8}  {'KiB':>9}  {'kind':<14}  {'kernels':<20}  "
        head += "step [inner loops]"
        return "\n".join([head, *rows, f"{self.seconds * 1e6:9.1f}  in all"])


def _said(loops: dict[str, float]) -> str:
    shares = ", ".join(f"{name} {share:.0%}" for name, share in loops.items())
    return f" [{shares}]" if shares else ""


def profile_of(plan: Plan, bound: Bound, runs: Sequence[Seconds]) -> Profile:
    """The timings of several runs, native steps added up step by step of the plan."""
    native = np.median([run.native for run in runs], axis=0)
    timings = []
    parts: dict[Step | None, list[int]] = {}
    for index, label in enumerate(bound.labels):
        parts.setdefault(label, []).append(index)
    for step in plan.steps:
        if isinstance(step, OUTSIDE):
            seconds = float(np.median([run.subgraphs[step.name] for run in runs]))
            names: tuple[str, ...] = ("python" if isinstance(step, Call) else "onnxruntime",)
        else:
            seconds = float(sum(native[i] for i in parts.get(step, ())))
            names = tuple(dict.fromkeys(bound.program.kernels[i] for i in parts.get(step, ())))
        work = _macs(plan, bound, step), _nbytes(plan, bound, step)
        loops = _loops(bound, parts.get(step, ()))
        timings.append(Timing(step.name, step.kind, names, seconds, *work, loops))
    for index in parts.get(None, ()):
        timings.append(Timing("", "copy", (bound.program.kernels[index],), float(native[index]), 0, 0))
    return Profile(tuple(timings))


def _loops(bound: Bound, parts: Sequence[int]) -> dict[str, float]:
    """The shares of the inner loops of several native steps, the largest first."""
    products: Counter[str] = Counter()
    for index in parts:
        products.update(bound.program.loops(index))
    return {name: count / products.total() for name, count in products.most_common()}


def _macs(plan: Plan, bound: Bound, step: Any) -> int:
    if isinstance(step, Conv | Linear):
        return prod(bound.shapes[step.y]) * prod(plan.constants[step.weight].shape[1:])
    if isinstance(step, ConvTranspose):
        weight, x = plan.constants[step.weight].shape, bound.shapes[step.x]
        return int(prod(x) * prod(weight[1:3]) * weight[0] // step.groups)
    if isinstance(step, MatMul):
        return prod(bound.shapes[step.y]) * bound.shapes[step.a][-1]
    return 0


def _nbytes(plan: Plan, bound: Bound, step: Step) -> int:
    tensors = [name for name in {*reads(step), *writes(step)} if name in bound.shapes]
    held = [name for name in {*reads(step), *constants(step)} if name not in bound.shapes]
    moved = sum(prod(bound.shapes[n]) * np.dtype(dtype_of(plan.tensors[n])).itemsize for n in tensors)
    return moved + sum(plan.constants[name].nbytes for name in held)
