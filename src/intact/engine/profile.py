"""Report how long each step of a run takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from intact.engine.plan import Plan
from intact.engine.shapes import peek
from intact.engine.steps import Shape, Step
from intact.engine.steps.base.wiring import constants, reads, writes
from intact.terminal import printable

COLUMNS = ("us", "share", "GMAC/s", "KiB", "kind", "kernels", "chosen by", "step [inner loops]")
"""Of the table of a profile."""


@dataclass(frozen=True)
class Timing:
    """Time of one step of a plan.

    Attributes:
        name, kind: The step's.
        kernels: What ran: the native steps' own names; "onnxruntime" for a subgraph.
        seconds: Median over the runs.
        macs: Multiplications of codes, of which each is one accumulation too.
        nbytes: Of the tensors and constants that it reads and writes, each once.
        loops: The share of products that each inner loop forms, padding included; empty where there is one
            loop. A kernel that groups has one for each number of steps that share a 16-bit sum.
        chosen_by: What took these kernels, where there were several: "model" (the cost model), "cache"
            (figures that were given), "measured" (figures of this engine); "" where there was no choice.
    """

    name: str
    kind: str
    kernels: tuple[str, ...]
    seconds: float
    macs: int
    nbytes: int
    loops: dict[str, float] = field(default_factory=dict)
    chosen_by: str = ""

    @property
    def gmacs(self) -> float:
        """10^9 multiplications a second."""
        return self.macs / self.seconds / 1e9 if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class EngineProfile:
    """The timings of all steps, in order.

    Attributes:
        timings: One for each step of the plan; copies of inputs and outputs are their own.
    """

    timings: tuple[Timing, ...]

    @property
    def seconds(self) -> float:
        """Seconds of all steps together."""
        return sum(t.seconds for t in self.timings)

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row of text for each step, under `COLUMNS`."""
        return [
            (
                f"{t.seconds * 1e6:.1f}", f"{t.seconds / max(self.seconds, 1e-12):.1%}", f"{t.gmacs:.1f}",
                f"{t.nbytes / 1024:.1f}", t.kind, "+".join(t.kernels), t.chosen_by,
                f"{printable(t.name)}{_describe_loops(t.loops)}",
            )
            for t in self.timings
        ]  # fmt: skip

    def __str__(self) -> str:
        lines = [
            f"{us:>9}  {share:>6}  {gmacs:>8}  {kib:>9}  {kind:<14}  {kernels:<20}  {by:<9}  {step}"
            for us, share, gmacs, kib, kind, kernels, by, step in [COLUMNS, *self.rows()]
        ]
        return "\n".join([*lines, f"{self.seconds * 1e6:9.1f}  in all"])


def _describe_loops(loops: dict[str, float]) -> str:
    shares = ", ".join(f"{name} {share:.0%}" for name, share in loops.items())
    return f" [{shares}]" if shares else ""


def work_of(plan: Plan, shapes: Mapping[str, Shape], step: Step) -> tuple[int, int]:
    """Count a step's multiplications of codes, and the bytes of tensors and constants that it names, each
    once."""
    moved = [name for name in {*reads(step), *writes(step)} if name in shapes]
    constant_names = [name for name in {*reads(step), *constants(step)} if name not in shapes]
    nbytes = sum(prod(shapes[name]) * _itemsize(plan, name) for name in moved)
    nbytes += sum(peek(plan, name).nbytes for name in constant_names)
    return step.macs(lambda name: shapes[name] if name in shapes else peek(plan, name).shape), nbytes


def _itemsize(plan: Plan, name: str) -> int:
    tensor = plan.tensors[name]
    return np.dtype(tensor.stored_dtype).itemsize
