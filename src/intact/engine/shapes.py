"""Infer the shape of every tensor of a plan from the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from intact.engine.plan import Plan
from intact.engine.steps import Call, FallbackSubgraph, Shape, Step
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.wiring import reads, writes
from intact.errors import QuantValueError, UnsupportedError
from intact.kernels import crc32
from intact.limits import FALLBACK_PARTS

if TYPE_CHECKING:
    from intact.graph import Session

FallbackShapes = Callable[[Step, Mapping[str, Shape]], Mapping[str, Shape]]
"""The sizes of what a step makes that no kernel does, from those of the tensors so far."""


def infer_shapes(plan: Plan, inputs: Mapping[str, Shape], fallback: FallbackShapes) -> dict[str, Shape]:
    """Infer the sizes of all tensors of a plan, in ONNX's order.

    Args:
        plan: The plan.
        inputs: Sizes of its inputs.
        fallback: For steps that no kernel does, where the plan does not say what they make.
    Raises:
        QuantValueError: Sizes contradict each other or the plan; names tensor and dimension.
    """
    sizes = Sizes(plan.tensors, lambda name: peek(plan, name).shape, loose_outputs(plan))
    for name in plan.inputs:
        sizes.bind(name, inputs[name])
    guessed = False
    for step in plan.steps:
        try:
            guessed |= _bind_made(step, sizes, fallback)
        except QuantValueError as error:
            if guessed:
                raise SizesUnknown(error.where, error.got, error.want, error.fix) from error
            raise
    return sizes.shapes


def loose_outputs(plan: Plan) -> frozenset[str]:
    """Return the outputs that no step reads: declared sizes do not bind those.

    Exporters write those of the run that they saw; ONNX Runtime takes them as advice, too.
    """
    read = {name for step in plan.steps for name in reads(step)}
    return frozenset(plan.outputs).difference(plan.inputs, read)


def _bind_made(step: Step, sizes: Sizes, fallback: FallbackShapes) -> bool:
    """Bind the outputs of `step`.

    Return whether their sizes come from a run on zeros, which values may contradict.
    """
    outputs = writes(step)
    if step.native:
        try:
            shapes = step.output_shapes(sizes)
        except QuantValueError as error:
            raise error.at(f"step '{step.name}'") from error
        for name, shape in zip(outputs, shapes, strict=True):
            sizes.bind(name, shape)
        return False
    declared = sizes.complete_shapes(outputs)
    output_shapes = declared or fallback(step, sizes.shapes)
    guessed = declared is None and isinstance(step, FallbackSubgraph)
    for name in outputs:
        try:
            sizes.bind(name, output_shapes[name])
        except QuantValueError as error:
            if not guessed:
                raise
            raise SizesUnknown(error.where, error.got, error.want, error.fix) from error
    return guessed


class SizesDiffer(QuantValueError):
    """Raised where a part in ONNX Runtime makes other sizes than bound: they depend on values of the inputs.

    Attributes:
        part_shapes: The shapes that the part gave, by tensor.
    """

    def __init__(self, name: str, bound: Shape, part_shapes: Mapping[str, Shape]) -> None:
        super().__init__(
            f"tensor '{name}'", f"shape {part_shapes[name]}",
            f"{bound}, as before: values of the inputs decide sizes", "run this model in ONNX Runtime",
        )  # fmt: skip
        self.part_shapes = dict(part_shapes)


class SizesUnknown(QuantValueError):
    """A part in ONNX Runtime does not run on zeros, or sizes contradict each other behind one that does:
    values decide what it makes."""


def fallback_shapes(
    plan: Plan, step: Step, shapes: Mapping[str, Shape], session: Callable[[FallbackSubgraph], Session]
) -> dict[str, Shape]:
    """Return the sizes of a fallback's outputs: as registered, or found by running it on zeros
    (`FallbackShapes`).

    What values have to say about sizes is seen when it runs (`SizesDiffer`).
    """
    if isinstance(step, Call):
        return step.operator_shapes([shapes[x] if x in shapes else plan.constants[x].shape for x in step.xs])
    assert isinstance(step, FallbackSubgraph), f"no kernel for '{step.kind}', and nobody else"
    zeros = {x: zeros_of(shapes[x], plan.tensors[x].stored_dtype) for x in step.xs}
    try:
        outputs = session(step).run(zeros)
    except UnsupportedError as error:
        raise SizesUnknown(f"step '{step.name}'", error.got, error.want, error.fix) from error
    return {y: outputs[y].shape for y in step.ys}


def zeros_of(shape: Shape, dtype: str) -> NDArray[Any]:
    """Return a stand-in for an input that the caller left out: zeros, of strings "0"."""
    return np.full(shape, "0", object) if dtype == "object" else np.zeros(shape, dtype)


def peek(plan: Plan, constant: str) -> NDArray[np.generic]:
    """Return a constant for its shape and dtype: nobody has verified its elements, nor made them."""
    look = getattr(plan.constants, "peek", plan.constants.__getitem__)
    array: NDArray[np.generic] = look(constant)
    return array


def borrow(plan: Plan, constant: str) -> NDArray[np.generic]:
    """Return a constant that nobody needs for long: a plan file does not keep what it makes for it."""
    look = getattr(plan.constants, "borrow", plan.constants.__getitem__)
    array: NDArray[np.generic] = look(constant)
    return array


def checksum(plan: Plan, constant: str) -> int:
    """Return the CRC-32 of a constant's bytes; a plan file stores it, so that they are not read."""
    say = getattr(plan.constants, "checksum", None)
    return crc32(plan.constants[constant]) if say is None else int(say(constant))


Made = TypeVar("Made")


def retry_with_sizes(
    attempt: Callable[[], Made],
    known_shapes: dict[str, Shape],
    evaluated: Callable[[], Mapping[str, Shape]],
) -> Made:
    """Call `attempt` again with the output sizes of parts in ONNX Runtime where it needs them.

    Each time it ends in `SizesDiffer`, it is tried once more: parts further in front make the same again,
    so that it ends with the last part, unless sizes come by chance.

    Args:
        attempt: Binds and runs.
        known_shapes: What parts make, as far as it is known: more is added.
        evaluated: What parts make, by the reference, which is slow: where zeros do not tell.
    """
    for attempts in count(1):
        try:
            return attempt()
        except SizesDiffer as differ:
            known_shapes.update(differ.part_shapes)
        except SizesUnknown:
            part_shapes = evaluated()
            if part_shapes.items() <= known_shapes.items():
                raise
            known_shapes.update(part_shapes)
        if attempts >= FALLBACK_PARTS.most:  # asked for here alone: the environment says it, at a price
            break
    return attempt()
