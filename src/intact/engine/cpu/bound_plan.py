"""A plan that native code has bound to kernels and memory for one set of input shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.fallback import FallbackSessions
from intact.engine.cpu.host import PlanHost, record_of
from intact.engine.kernel_choices import FormChoice
from intact.engine.plan import Plan
from intact.engine.steps import Shape, Step
from intact.engine.steps.base.wiring import writes
from intact.kernels import NEAR_BYTES, Context, HostedBound, HostedPlan, Program, ThreadPool, kernels_in_use
from intact.limits import ENGINE_BYTES
from intact.processes import cached_property


@dataclass(frozen=True)
class Place:
    """Locates a tensor in memory.

    Attributes:
        block: Number of the block.
        offset: Bytes from its start to element 0.
        strides: Bytes, in ONNX's order of axes.
    """

    block: int
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Segment:
    """Holds what runs without a break: native steps [begin, end), or one step that no kernel does."""

    begin: int
    end: int
    fallback: Step | None = None


class PreparedPlan:
    """A plan as native code reads it, once for all shapes.

    Args:
        plan: The plan.
        fallback: Runs the parts that no kernel does.
        whole: Whether every tensor is to be kept, so that no step takes another's work over.

    Attributes:
        host: What native code asks; set its attributes before `bind`.
        numbers: Of each tensor the number that native code has for it.
    """

    def __init__(self, plan: Plan, fallback: FallbackSessions, *, whole: bool = False) -> None:
        self.plan, self.host = plan, PlanHost(plan, fallback)
        self._native = HostedPlan(record_of(plan), self.host, whole)
        self._packed_weights = self.host.packed_weights
        self.numbers = {name: number for number, name in enumerate(plan.tensors)}

    def bind(
        self, inputs: Mapping[str, Shape], thread_pool: ThreadPool, strides: Mapping[str, Shape]
    ) -> Bound:
        """Bind the plan for inputs of these shapes, and for arrays of inputs and outputs with these strides.

        Raises:
            QuantValueError: The shapes contradict each other or the plan.
            UnsupportedError: A step cannot be made native.
        """
        kernels_in_use()  # refuses names in the environment that this machine has no kernel for
        self.host.choices = {}
        if self.host.packed_weights is not self._packed_weights:  # native layers were made of these
            self._native.forget_layers()
            self._packed_weights = self.host.packed_weights
        shapes = [inputs[name] for name in self.plan.inputs]
        native = self._native.bind(
            shapes, thread_pool.native, ENGINE_BYTES.most, NEAR_BYTES,
            [strides.get(name) for name in self.plan.inputs] if strides else [],
            [strides.get(name) for name in self.plan.outputs] if strides else [],
        )  # fmt: skip
        return Bound(self, native, thread_pool, self.host.choices)


class Bound:
    """A plan that can run on inputs of certain shapes.

    Args:
        prepared: The plan.
        native: It, bound.
        thread_pool: The threads of a run.
        choices: What a chooser that asks for layers has chosen, by native step.

    Attributes:
        program: The native steps.
        arena: Bytes of the arena.
        held_bytes: Bytes of arrays that are for these sizes alone.
    """

    def __init__(
        self, prepared: PreparedPlan, native: HostedBound, thread_pool: ThreadPool,
        choices: Mapping[int, FormChoice],
    ) -> None:  # fmt: skip
        self.plan, self._numbers = prepared.plan, prepared.numbers
        self._native, self._choices = native, choices
        self.program = Program(thread_pool, native.program)
        self.arena, self.held_bytes = native.arena_bytes, native.held_bytes

    @cached_property
    def choices(self) -> Mapping[int, FormChoice]:
        """The choice for each native step that has several forms."""
        if self._choices:
            return self._choices
        return {
            step: FormChoice("", forms[default], "model", forms[default], forms)
            for step, forms, default in self._native.choices
        }

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """The shapes of all tensors that a run has."""
        shapes = self._native.shapes
        names = (*self.plan.inputs, *(name for step in self.plan.steps for name in writes(step)))
        return {name: shapes[self._numbers[name]] for name in names}

    @cached_property
    def labels(self) -> tuple[Step | None, ...]:
        """For each native step the plan's step that it belongs to; None: a copy of an input or output."""
        steps = self.plan.steps
        return tuple(None if index < 0 else steps[index] for index in self._native.labels)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The order of native steps and parts."""
        segments, begin = list[Segment](), 0
        for end, index in self._native.parts:
            if end > begin:
                segments.append(Segment(begin, end))
            segments.append(Segment(end, end, self.plan.steps[index]))
            begin = end
        if len(self.program) > begin:
            segments.append(Segment(begin, len(self.program)))
        return tuple(segments)

    @cached_property
    def times(self) -> NDArray[np.int64]:
        """Runs of each native step in one run of the plan."""
        return np.array(self._native.times, np.int64)

    @cached_property
    def blocks(self) -> dict[int, tuple[bool, str]]:
        """Owners of the blocks that a run passes: (is it an input, name)."""
        native, plan = self._native, self.plan
        inputs = dict(zip(native.input_blocks, ((True, name) for name in plan.inputs), strict=True))
        outputs = dict(zip(native.output_blocks, ((False, name) for name in plan.outputs), strict=True))
        return {**inputs, **outputs}

    def place_arrays(self, context: Context, inputs: list[NDArray[Any]], outputs: list[NDArray[Any]]) -> None:
        """Set the addresses of inputs and outputs, which lie as they were bound."""
        self._native.place_arrays(context, inputs, outputs)

    def shape(self, name: str) -> Shape:
        """Return the shape of a tensor."""
        return self._native.shape(self._numbers[name])

    @cached_property
    def constant_block(self) -> tuple[int, NDArray[np.uint8]]:
        """The block of what was made for these sizes when they were bound, and its bytes."""
        return self._native.held_block, self._native.held_values

    def place(self, name: str) -> Place:
        """Return where a tensor lies."""
        return Place(*self._native.place(self._numbers[name]))
