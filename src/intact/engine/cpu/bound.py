"""A plan made native for one set of input shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import numpy as np

from intact.engine.choices import FormChoice, FormChooser
from intact.engine.cpu import steps as _steps_of_kinds  # noqa: F401  # registers how they become native
from intact.engine.cpu.binding import BINDERS, NO_HALO, Binding, Packed, Place, dense_view, dtype_of
from intact.engine.cpu.fuse import fuse
from intact.engine.cpu.layout import Layout, lay_out
from intact.engine.cpu.memory import plan_memory
from intact.engine.plan import Plan
from intact.engine.shapes import FallbackShapes, infer_shapes
from intact.engine.steps import Shape, Step
from intact.engine.steps.wiring import writes
from intact.errors import IntactError, QuantValueError, UnsupportedError
from intact.kernels import moves
from intact.kernels.program import ARENA, NativeStep, Program
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
        arena: Bytes of the arena.
        choices: Of native steps that have several forms, what was chosen.
    """

    program: Program
    segments: tuple[Segment, ...]
    labels: tuple[Step | None, ...]
    shapes: dict[str, Shape]
    places: dict[str, Place]
    arena: int
    choices: Mapping[int, FormChoice]


def bind(
    plan: Plan,
    inputs: Mapping[str, Shape],
    program: Program,
    *,
    kernels: dict[str, str],
    packed: Packed,
    fallback: FallbackShapes,
    chooser: FormChooser,
    reuse: bool = True,
) -> Bound:
    """Make a plan native.

    Args:
        plan: The plan.
        inputs: Shapes of its inputs.
        program: An empty program.
        kernels: The chosen kernel of each family.
        packed: Packed weights; what is missing is added.
        fallback: Shapes of what steps make that no kernel does, where the plan does not say them.
        chooser: Decides where a layer has several forms.
        reuse: False: every tensor keeps its memory, so that all can be read after a run.
    Raises:
        QuantValueError: The shapes contradict each other or the plan.
        UnsupportedError: A step cannot be made native.
    """
    shapes = infer_shapes(plan, inputs, fallback)
    if reuse:
        plan = fuse(plan)
    outside = _check_sizes(plan, shapes)
    layout = lay_out(plan, {name: shapes[name] for name in (*plan.inputs, *_made(plan))})
    offsets, taken, arena = plan_memory(plan, layout, reuse=reuse)
    ENGINE_BYTES.check(outside + arena, "engine", QuantValueError)
    for offset, nbytes in taken:
        program.tensor(offset, nbytes)
    outer = {name: program.input(_nbytes(plan, shapes, name)) for name in plan.inputs}
    outputs = [program.output(_nbytes(plan, shapes, name)) for name in plan.outputs]
    into = dict(zip(plan.outputs, outputs, strict=True))
    places = _places(layout, offsets, {**into, **outer})
    binding = Binding(plan, shapes, places, arena, program, kernels, packed, chooser)
    steps, labels, segments = _steps(binding, layout, outer, list(zip(plan.outputs, outputs, strict=True)))
    ENGINE_BYTES.check(outside + binding.arena, "engine", QuantValueError)
    program.arena(binding.arena)
    for step, label in zip(steps, labels, strict=True):
        with _named(label):
            program.add(step)
    return Bound(program, segments, tuple(labels), shapes, places, binding.arena, binding.choices(steps))


def _made(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        yield from writes(step)


def _nbytes(plan: Plan, shapes: dict[str, Shape], name: str) -> int:
    return prod(shapes[name]) * np.dtype(dtype_of(plan.tensors[name])).itemsize


def _check_sizes(plan: Plan, shapes: dict[str, Shape]) -> int:
    """Bytes of inputs and outputs. Sizes below 0 and tensors above the limit are refused."""
    for name in shapes:
        if min(shapes[name], default=0) < 0:
            raise QuantValueError(f"tensor '{name}'", f"shape {shapes[name]}", "sizes of 0 or more",
                                  "give inputs of the shapes that the model was made for")  # fmt: skip
        ENGINE_BYTES.check(_nbytes(plan, shapes, name), f"tensor '{name}'", QuantValueError)
    return sum(_nbytes(plan, shapes, name) for name in (*plan.inputs, *plan.outputs))


def _places(layout: Layout, offsets: dict[str, int], outer: Mapping[str, int]) -> dict[str, Place]:
    places = {}
    for name, frame in layout.frames.items():
        root = layout.aliases.get(name, name)
        if root in offsets:
            places[name] = Place(ARENA, offsets[root] + frame.first, frame.strides, frame.halo)
        else:
            places[name] = Place(outer[root], 0, frame.strides)
    return places


def _steps(
    binding: Binding, layout: Layout, inputs: Mapping[str, int], outputs: list[tuple[str, int]]
) -> tuple[list[NativeStep], list[Step | None], tuple[Segment, ...]]:
    """Native steps, the plan's step of each one, and where subgraphs run between them."""
    steps: list[NativeStep] = []
    labels: list[Step | None] = []
    segments: list[Segment] = []

    def extend(label: Step | None, more: list[NativeStep]) -> None:
        steps.extend(more)
        labels.extend([label] * len(more))

    def cut() -> None:
        begin = segments[-1].end if segments else 0
        if len(steps) > begin:
            segments.append(Segment(begin, len(steps)))

    for name in binding.plan.inputs:
        if name in layout.staged:
            with _named(None):
                extend(None, [*_halo(binding, name), _outer_copy(binding, name, inputs[name], to_arena=True)])
    for step in binding.plan.steps:
        if not step.native:
            extend(step, [halo for name in writes(step) for halo in _halo(binding, name)])
            cut()
            segments.append(Segment(len(steps), len(steps), step))
            continue
        with _named(step):
            if type(step) not in BINDERS:
                raise ValueError(f"no native steps of kind '{step.kind}'")
            halos = [halo for name in writes(step) for halo in _halo(binding, name)]
            extend(getattr(step, "label", step), [*halos, *binding.native_steps(step)])
    for name, block in outputs:
        if binding.places[name].block != block:
            with _named(None):
                extend(None, [_outer_copy(binding, name, block, to_arena=False)])
    cut()
    return steps, labels, tuple(segments)


def _halo(binding: Binding, name: str) -> list[NativeStep]:
    """The bytes around the images of a tensor that is about to be written."""
    if binding.places[name].halo == NO_HALO:
        return []
    codes = binding.tensor(name).codes  # all bytes of +0 are 0
    return [moves.halo(binding.image(name), 0 if codes is None else codes.zero_point + codes.offset)]


def _outer_copy(binding: Binding, name: str, block: int, *, to_arena: bool) -> NativeStep:
    """Between a caller's array, which is row-major, and the tensor."""
    inside = binding.view(name)
    outside = dense_view(block, 0, dtype_of(binding.tensor(name)), binding.shape(name))
    return moves.copy(outside, inside) if to_arena else moves.copy(inside, outside)


@contextmanager
def _named(step: Step | None) -> Iterator[None]:
    """Say whose step a refusal of a native maker is about."""
    try:
        yield
    except IntactError:
        raise
    except (ValueError, TypeError, OverflowError) as error:  # of numbers beyond C++'s
        where = f"step '{step.name}' ({step.kind})" if step else "an input or output"
        said = str(error).partition("\n")[0]
        raise UnsupportedError(
            where, f"'{said}'", "a step that native code can run", "report this model to INTact"
        ) from error
