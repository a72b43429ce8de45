"""Bind a plan to native steps and memory for one set of input shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu import steps as _steps_of_kinds  # noqa: F401  # registers how they become native
from intact.engine.cpu.binding import BINDERS, NO_HALO, Binding, Packed, Place, dense_view, dtype_of
from intact.engine.cpu.layout import Layout, lay_out
from intact.engine.cpu.memory import plan_memory
from intact.engine.cpu.micro_batches import MicroBatches, micro_batches
from intact.engine.cpu.prepared_plan import PreparedPlan
from intact.engine.kernel_choices import FormChoice, FormChooser
from intact.engine.plan import Plan
from intact.engine.shapes import Compute, FallbackShapes, infer_shapes
from intact.engine.steps import Shape, Step
from intact.engine.steps.base.wiring import writes
from intact.errors import IntactError, QuantValueError, UnsupportedError
from intact.kernels import ARENA, NativeStep, Program, moves
from intact.limits import ENGINE_BYTES


@dataclass(frozen=True)
class Segment:
    """What runs without a break: native steps [begin, end), or one step that no kernel does."""

    begin: int
    end: int
    fallback: Step | None = None


@dataclass(frozen=True)
class Bound:
    """A plan that can run on inputs of certain shapes.

    Attributes:
        program: The native steps.
        segments: The order of native steps and subgraphs.
        labels: For each native step the plan's step that it belongs to; None: a copy of an input or output.
        shapes, places: Of every tensor.
        blocks: The caller's array of each input and output, by number.
        arena: Bytes of the arena.
        held_bytes: Bytes of arrays that are for these sizes alone.
        choices: Of native steps that have several forms, what was chosen.
        times: How often each native step runs in a run of all.
    """

    program: Program
    segments: tuple[Segment, ...]
    labels: tuple[Step | None, ...]
    shapes: dict[str, Shape]
    places: dict[str, Place]
    blocks: Mapping[str, int]
    arena: int
    held_bytes: int
    choices: Mapping[int, FormChoice]
    times: NDArray[np.int64]


def bind(
    prepared: PreparedPlan,
    inputs: Mapping[str, Shape],
    program: Program,
    *,
    kernels: dict[str, str],
    packed: Packed,
    fallback: FallbackShapes,
    compute: Compute,
    chooser: FormChooser,
) -> Bound:
    """Make a plan native.

    Args:
        prepared: The plan; where it is to stay whole, every tensor keeps its memory.
        inputs: Shapes of its inputs.
        program: An empty program.
        kernels: The chosen kernel of each family.
        packed: Packed weights; what is missing is added.
        fallback: Shapes of what steps make that no kernel does, where the plan does not say them.
        compute: What arithmetic with sizes makes.
        chooser: Decides where a layer has several forms.
    Raises:
        QuantValueError: The shapes contradict each other or the plan.
        UnsupportedError: A step cannot be made native.
    """
    values: dict[str, NDArray[np.generic]] = {}
    shapes = infer_shapes(prepared.plan, inputs, fallback, compute, values)
    plan, reuse = prepared.fused, not prepared.whole
    outside = _check_sizes(prepared, shapes)
    repeated, layout = _lay_out(prepared, shapes, program.thread_pool.threads if reuse else 0)
    memory = plan_memory(plan, layout, repeated, reuse=reuse)
    ENGINE_BYTES.check(outside + memory.nbytes, "engine", QuantValueError)
    for offset, nbytes in memory.occupied:
        program.tensor(offset, nbytes)
    outer = {name: program.input(_nbytes(prepared, shapes, name)) for name in plan.inputs}
    outputs = [program.output(_nbytes(prepared, shapes, name)) for name in plan.outputs]
    into = dict(zip(plan.outputs, outputs, strict=True))
    blocks = dict.fromkeys(memory.offsets, ARENA)
    for steps, part in zip(repeated, memory.private, strict=True):
        blocks.update(dict.fromkeys(steps.inner, program.thread_memory(*part)))
    places = _places(layout, memory.offsets, {**into, **outer, **blocks})
    binding = Binding(prepared, shapes, places, memory.nbytes, program, kernels, packed, chooser, values)
    with _Refusals() as refusals:
        step_list = _StepList(binding, layout, refusals)
        step_list.extend_by(repeated, outer, list(zip(plan.outputs, outputs, strict=True)))
    ENGINE_BYTES.check(outside + binding.arena, "engine", QuantValueError)
    program.arena(binding.arena)
    with _Refusals() as refusals:
        for index, (step, label) in enumerate(zip(step_list.steps, step_list.labels, strict=True)):
            refusals.step = label
            if index in step_list.repeats:
                program.repeat(step_list.repeats[index])
            program.add(step)
    return Bound(
        program, tuple(step_list.segments), tuple(step_list.labels), shapes, places, {**into, **outer},
        binding.arena, sum(array.nbytes for array in values.values()), binding.choices(step_list.steps),
        step_list.times(),
    )  # fmt: skip


def _lay_out(
    prepared: PreparedPlan, shapes: dict[str, Shape], threads: int
) -> tuple[tuple[MicroBatches, ...], Layout]:
    """What runs a few images at a time, for so many threads, and where everything lies then."""
    plan = prepared.fused
    repeated = micro_batches(prepared, shapes, threads) if threads else ()
    while True:
        sizes = {name: shapes[name] for name in (*plan.inputs, *_output_names(plan))}
        for steps in repeated:
            sizes.update((name, steps.sizes(shapes[name])) for name in steps.inner)
        layout = lay_out(prepared, sizes)
        fitting = tuple(steps for steps in repeated if steps.fit(plan, layout))
        if len(fitting) == len(repeated):
            return repeated, layout
        repeated = fitting


def _output_names(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        yield from writes(step)


def _nbytes(prepared: PreparedPlan, shapes: dict[str, Shape], name: str) -> int:
    return prod(shapes[name]) * prepared.itemsizes[name]


def _check_sizes(prepared: PreparedPlan, shapes: dict[str, Shape]) -> int:
    """Bytes of inputs and outputs. Sizes below 0 and tensors above the limit are refused."""
    most = ENGINE_BYTES.most
    for name in shapes:
        if min(shapes[name], default=0) < 0:
            raise QuantValueError(f"tensor '{name}'", f"shape {shapes[name]}", "sizes of 0 or more",
                                  "give inputs of the shapes that the model was made for")  # fmt: skip
        if (nbytes := _nbytes(prepared, shapes, name)) > most:
            ENGINE_BYTES.check(nbytes, f"tensor '{name}'", QuantValueError)
    plan = prepared.plan
    return sum(_nbytes(prepared, shapes, name) for name in (*plan.inputs, *plan.outputs))


def _places(layout: Layout, offsets: dict[str, int], blocks: Mapping[str, int]) -> dict[str, Place]:
    places = {}
    for name, frame in layout.frames.items():
        root = layout.aliases.get(name, name)
        if root in offsets:
            places[name] = Place(blocks[root], offsets[root] + frame.first, frame.strides, frame.halo)
        else:
            places[name] = Place(blocks[root], frame.first, frame.strides)
    return places


class _StepList:
    """The native steps of a plan, as they are made.

    Args:
        binding, layout: Of the plan without its strings.
        refusals: Names the step that is being made in what goes wrong.

    Attributes:
        steps: In the order in which they run.
        labels: Of each one the plan's step.
        segments: Where subgraphs run between them.
        repeats: How often all from a step on run, up to the next one that is named here.
    """

    def __init__(self, binding: Binding, layout: Layout, refusals: _Refusals) -> None:
        self._binding, self._layout, self._refusals = binding, layout, refusals
        self._whole = binding.prepared.steps
        self._has_halos = any(frame.halo != NO_HALO for frame in layout.frames.values())
        self.steps: list[NativeStep] = []
        self.labels: list[Step | None] = []
        self.segments: list[Segment] = []
        self.repeats: dict[int, int] = {}

    def extend_by(
        self, repeated: Sequence[MicroBatches], inputs: Mapping[str, int], outputs: list[tuple[str, int]]
    ) -> None:
        """All steps of the plan, and copies of inputs and outputs that the arena has besides."""
        binding, layout = self._binding, self._layout
        for name in binding.plan.inputs:
            if name in layout.staged:
                copied = _outer_copy(binding, name, inputs[name], to_arena=True)
                self._extend(None, [*_halo(binding, name), copied])
        begins, ends = {steps.begin: steps for steps in repeated}, {steps.end for steps in repeated}
        for index, step in enumerate(binding.plan.steps):
            if index in ends:
                self.repeats[len(self.steps)] = 1
                binding.cut({}, {})
            if index in begins:
                self._extend_by_halos(begins[index])
                self.repeats[len(self.steps)] = begins[index].times
                begins[index].cut(binding, layout)
            if step.native:
                self._extend_by_step(step)
            else:
                self._extend_by_part(step, self._whole[index])
        self.repeats[len(self.steps)] = 1
        binding.cut({}, {})
        self._refusals.step = None
        for name, block in outputs:
            if binding.places[name].block != block:
                self._extend(None, [_outer_copy(binding, name, block, to_arena=False)])
        self._end_segment()

    def times(self) -> NDArray[np.int64]:
        """How often each of the steps runs."""
        times = np.ones(len(self.steps), np.int64)
        for begin, count in self.repeats.items():  # in order
            times[begin:] = count
        return times

    def _extend_by_part(self, step: Step, whole: Step) -> None:
        """What no kernel does: `whole`, which is `step` with its strings."""
        self._extend(whole, [halo for name in writes(step) for halo in _halo(self._binding, name)])
        self._end_segment()
        self.segments.append(Segment(len(self.steps), len(self.steps), whole))

    def _extend_by_step(self, step: Step) -> None:
        binding, self._refusals.step = self._binding, step
        if type(step) not in BINDERS:
            raise ValueError(f"no native steps of kind '{step.kind}'")
        more = binding.native_steps(step)
        if self._has_halos:
            outputs = [name for name in writes(step) if not binding.is_cut(name)]
            more = [*(halo for name in outputs for halo in _halo(binding, name)), *more]
        self._extend(getattr(step, "label", step), more)

    def _extend_by_halos(self, repeated: MicroBatches) -> None:
        """Write halos of whole tensors before micro-batches write their images: neighbours share a halo."""
        for step in self._binding.plan.steps[repeated.begin : repeated.end]:
            self._refusals.step = step
            for name in set(writes(step)) - repeated.inner:
                self._extend(step, _halo(self._binding, name))

    def _extend(self, label: Step | None, more: list[NativeStep]) -> None:
        self.steps.extend(more)
        self.labels.extend([label] * len(more))

    def _end_segment(self) -> None:
        begin = self.segments[-1].end if self.segments else 0
        if len(self.steps) > begin:
            self.segments.append(Segment(begin, len(self.steps)))


def _halo(binding: Binding, name: str) -> list[NativeStep]:
    """The bytes around the images of a tensor that is about to be written."""
    if binding.place(name).halo == NO_HALO:
        return []
    codes = binding.tensor(name).codes  # all bytes of +0 are 0
    return [moves.halo(binding.image(name), 0 if codes is None else codes.zero_point + codes.offset)]


def _outer_copy(binding: Binding, name: str, block: int, *, to_arena: bool) -> NativeStep:
    """Between a caller's array, which is row-major, and the tensor."""
    inside = binding.view(name)
    outside = dense_view(block, 0, dtype_of(binding.tensor(name)), binding.shape(name))
    return moves.copy(outside, inside) if to_arena else moves.copy(inside, outside)


class _Refusals:
    """A context in which a refusal of a native maker says whose step it is about.

    Attributes:
        step: The plan's step that is made native now; None: a copy of an input or output.
    """

    step: Step | None = None

    def __enter__(self) -> _Refusals:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # Of C++: numbers beyond its own.
        if not isinstance(error, ValueError | TypeError | OverflowError) or isinstance(error, IntactError):
            return
        where = f"step '{self.step.name}' ({self.step.kind})" if self.step else "an input or output"
        message = str(error).partition("\n")[0]
        raise UnsupportedError(
            where, f"'{message}'", "a step that native code can run", "report this model to INTact"
        ) from error
