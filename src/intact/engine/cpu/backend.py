"""Plans on the CPU's native kernels, and how long each of their steps takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.backend import Arrays, Options, Packed, outputs_for
from intact.engine.cpu.bound_plan import Bound, PreparedPlan
from intact.engine.cpu.execute import Memory, Seconds, execute
from intact.engine.cpu.fallback import FallbackSessions, to_codes
from intact.engine.cpu.measure import Clock, Overlay, Run, Stopwatch, measure
from intact.engine.kernel_choices import FormChoice, FormChooser, name_of
from intact.engine.plan import Plan
from intact.engine.profile import EngineProfile, Timing, work_of
from intact.engine.reference import sizes_of_parts
from intact.engine.shapes import retry_with_sizes
from intact.engine.steps import Call, Shape, Step
from intact.kernels import ThreadPool, machine
from intact.processes import cached_property
from intact.timings import Timings

_STEP_BYTES = 1536
"""Of a native step, in C++ and in Python."""


class CpuBackend:
    """Native kernels, chosen for the instruction sets of this machine, on threads of its own.

    Attributes:
        name: "cpu".
        threads, packed: As `Backend` says.
        timings: As `Tunable` says.
        stopwatch: What `tune` measures with.
    """

    name = "cpu"

    def __init__(self, options: Options) -> None:
        self._pool = ThreadPool(options.threads)
        self.threads = self._pool.threads
        self.packed_weights = options.packed
        self._fallback_threads = 1 if options.deterministic else self.threads
        self._fallback: FallbackSessions | None = None
        self._prepared: dict[bool, PreparedPlan] = {}
        self._binding = RLock()
        self.timings = options.timings
        self.stopwatch: Stopwatch = Clock()
        self._measured: set[str] = set()
        self._used: set[str] = set()

    def check(self, plan: Plan) -> None:
        """Refuse models for ONNX Runtime that no plan of ours holds.

        Raises:
            FileFormatError: As for `intact.graph.check_fallback`; names the step.
        """
        self._fallback_of(plan).check()

    def compile(
        self, plan: Plan, shapes: Mapping[str, Shape], known_shapes: Mapping[str, Shape] | None = None
    ) -> CpuExecutable:
        """Bind a plan to kernels, and pack the weights that are not packed yet."""
        return CpuExecutable(plan, self._bind(plan, shapes, sizes=known_shapes), self._fallback_of(plan))

    def compile_strided(
        self, plan: Plan, shapes: Mapping[str, Shape], strides: Mapping[str, Shape]
    ) -> CpuExecutable:
        """Bind a plan for arrays of inputs and outputs that are not dense."""
        return CpuExecutable(plan, self._bind(plan, shapes, strides=strides), self._fallback_of(plan))

    def tap(self, plan: Plan, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Run with memory for every tensor, for which the plan is bound anew."""
        shapes, sizes = {name: array.shape for name, array in inputs.items()}, dict[str, Shape]()

        def attempt() -> tuple[Bound, dict[str, NDArray[Any]], Memory]:
            bound = self._bind(plan, shapes, reuse=False, sizes=sizes)
            outputs, context = outputs_for(plan, bound.shapes), bound.program.take()
            at = execute(plan, bound, self._fallback_of(plan), inputs, outputs, context)
            return bound, outputs, at

        bound, outputs, at = retry_with_sizes(attempt, sizes, lambda: sizes_of_parts(plan, inputs))
        tensors = {**inputs, **outputs}
        for name in bound.shapes.keys() - tensors.keys():
            codes = plan.tensors[name].codes
            tensors[name] = at(name).copy() if codes is None else to_codes(at(name), codes)
        return {name: tensors[name] for name in bound.shapes}

    def tune(self, plan: Plan, inputs: Arrays, seconds: float) -> CpuExecutable:
        """Time the forms of all layers of which this machine has no figures, and bind the plan by them."""
        shapes = {name: array.shape for name, array in inputs.items()}
        fallback, timings, tried = (
            self._fallback_of(plan),
            self.timings.of(machine()),
            Overlay(self.packed_weights, {}),
        )

        def runner(bound: Bound) -> Run:
            outputs, context = outputs_for(plan, bound.shapes), bound.program.take()

            def run() -> NDArray[np.float64]:
                elapsed = Seconds(bound)
                execute(plan, bound, fallback, inputs, outputs, context, elapsed)
                return elapsed.native / bound.times

            return run

        measured = measure(
            lambda chooser: self._bind(plan, shapes, chooser=chooser, packed=tried),
            runner, timings, seconds, self.stopwatch,
        )  # fmt: skip
        timings.update(measured)
        self._measured |= measured.keys()
        return CpuExecutable(
            plan, self._bind(plan, shapes, packed=Overlay(tried, self.packed_weights)), fallback
        )

    def used(self) -> Timings:
        """Return this machine's timings of all layers that were bound so far."""
        timings = self.timings.of(machine())
        return Timings({machine(): {name: timings[name] for name in sorted(self._used)}})

    def _bind(
        self, plan: Plan, shapes: Mapping[str, Shape], *, reuse: bool = True,
        chooser: FormChooser | None = None, packed: Packed | None = None,
        sizes: Mapping[str, Shape] | None = None, strides: Mapping[str, Shape] | None = None,
    ) -> Bound:  # fmt: skip
        if chooser is None:
            chooser = FormChooser(self.timings.of(machine()), self._measured)
        with self._binding:
            prepared = self._prepare(plan, whole=not reuse)
            prepared.host.chooser, prepared.host.known_shapes = chooser, sizes or {}
            prepared.host.packed_weights = self.packed_weights if packed is None else packed
            bound = prepared.bind(shapes, self._pool, strides or {})
        if chooser.asks:
            self._used.update(name_of(c.layer, form) for c in bound.choices.values() for form in c.seconds)
        return bound

    def _prepare(self, plan: Plan, *, whole: bool) -> PreparedPlan:
        prepared = self._prepared.get(whole)
        if prepared is None or prepared.plan is not plan:
            prepared = PreparedPlan(plan, self._fallback_of(plan), whole=whole)
            self._prepared[whole] = prepared
        return prepared

    def _fallback_of(self, plan: Plan) -> FallbackSessions:
        if self._fallback is None or self._fallback.plan is not plan:
            self._fallback = FallbackSessions(plan, self._fallback_threads)
        return self._fallback


@dataclass(frozen=True)
class CpuExecutable:
    """A plan that is bound to kernels and memory.

    Attributes:
        plan: The plan.
        bound: It, made native.
        fallback: What runs the parts that no kernel does.
    """

    plan: Plan
    bound: Bound
    fallback: FallbackSessions

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """Of every tensor."""
        return self.bound.shapes

    @cached_property
    def output_shapes(self) -> Mapping[str, Shape]:
        """Of the outputs."""
        return {name: self.bound.shape(name) for name in self.plan.outputs}

    @property
    def nbytes(self) -> int:
        """Bytes of what was worked out for these sizes, and of the steps. Memory of runs is shared."""
        return self.bound.held_bytes + _STEP_BYTES * len(self.bound.program)

    @property
    def choices(self) -> list[tuple[Step, FormChoice]]:
        """Return which form runs for each layer that has several, and why."""
        return [
            (step, c) for i, c in self.bound.choices.items() if (step := self.bound.labels[i]) is not None
        ]

    def run(self, inputs: Arrays, outputs: Arrays) -> None:
        """Run once, with memory that no other run uses."""
        context = self.bound.program.take()
        try:
            execute(self.plan, self.bound, self.fallback, inputs, outputs, context)
        finally:
            self.bound.program.give_back(context)

    def profile(self, inputs: Arrays, runs: int) -> EngineProfile:
        """Time every native step, and every part that no kernel does."""
        outputs = outputs_for(self.plan, self.shapes)
        context = self.bound.program.take()
        elapsed = []
        try:
            for _ in range(runs + 1):  # the first one warms up
                seconds = Seconds(self.bound)
                execute(self.plan, self.bound, self.fallback, inputs, outputs, context, seconds)
                elapsed.append(seconds)
        finally:
            self.bound.program.give_back(context)
        return profile_of(self.plan, self.bound, elapsed[1:])


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
