"""Run a bound plan: its native segments, and the parts between them that no kernel does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.bound_plan import Bound, Place
from intact.engine.cpu.fallback import FallbackSessions, dtype_of
from intact.engine.plan import Plan
from intact.engine.steps import (
    STRING,
    BlockGather,
    CachedAttention,
    ChosenBlockLinear,
    ChosenLinear,
    Gather,
    GatherElements,
    GatherRows,
    Rotary,
    ScatterElements,
    ScatterRows,
    Shape,
    Step,
)
from intact.engine.steps.base.indices import check_tuples
from intact.kernels import ARENA, Context

Arrays = Mapping[str, NDArray[Any]]
Memory = Callable[[str], NDArray[Any]]
"""Returns the memory of a tensor, by its name."""


class Seconds:
    """Holds the seconds of the parts of a run.

    Attributes:
        native: Of each native step.
        fallbacks: Of each step that no kernel does, by its name.
    """

    def __init__(self, bound: Bound) -> None:
        self.native = np.zeros(len(bound.program))
        self.fallbacks: dict[str, float] = {}


def execute(
    plan: Plan,
    bound: Bound,
    fallback: FallbackSessions,
    inputs: Arrays,
    outputs: Arrays,
    context: Context,
    seconds: Seconds | None = None,
) -> Memory:
    """Run a plan.

    Args:
        plan: The plan.
        bound: It, made native for the shapes of `inputs`.
        fallback: Runs what no kernel does.
        inputs: Arrays of the inputs, which lie as the plan was bound for them.
        outputs: Such arrays, which receive the outputs.
        context: Memory that no other run uses.
        seconds: Receives what every part took.
    Returns:
        What gives the memory of a tensor, as `_memory` says, until `context` is used again.
    Raises:
        QuantValueError: An index of rows that are not there; names it.
    """
    bound.place_arrays(
        context,
        [_numbers(inputs[name]) for name in plan.inputs],
        [_numbers(outputs[name]) for name in plan.outputs],
    )
    at = _memory(plan, bound, inputs, outputs, context)
    for segment in bound.segments:
        if segment.fallback is None:
            ended = context.run(segment.begin, segment.end, None if seconds is None else seconds.native)
            if ended < segment.end:
                _refuse(plan, bound.labels[ended], at)
            continue
        start = perf_counter()
        fallback.run(segment.fallback, at)
        if seconds is not None:
            seconds.fallbacks[segment.fallback.name] = perf_counter() - start
    for name, array in outputs.items():
        if name in inputs and array.dtype.kind == "O":
            np.copyto(array, inputs[name])
    return at


def _refuse(plan: Plan, step: Step | None, at: Memory) -> None:
    """Say what a step met."""

    def read(name: str) -> NDArray[Any]:
        return plan.constants[name] if name in plan.constants else at(name)

    if isinstance(step, (CachedAttention, Rotary)):
        kind = "input" if step.last in plan.inputs else "tensor"
        step.check_positions(lambda name: read(name).shape, read(step.last), f"{kind} '{step.last}'")
        return
    assert isinstance(step, _BY_INDEX), "nothing else fails"
    table = step.weight if isinstance(step, BlockGather) else step.x
    x, index = (read(name) for name in (table, step.index))
    kind = "input" if step.index in plan.inputs else "tensor"
    where = f"{kind} '{step.index}'"
    if isinstance(step, (GatherRows, ScatterRows)):
        check_tuples(index, step.numbers(_free_sizes(plan, at)), where)
    else:
        step.check_index(index, x.shape, where)


def _free_sizes(plan: Plan, at: Memory) -> dict[str, int]:
    """Return the sizes that inputs have where the plan leaves them free, by name."""
    return {
        dim: size
        for name in plan.inputs
        for dim, size in zip(plan.tensors[name].shape, at(name).shape, strict=True)
        if isinstance(dim, str)
    }


_BY_INDEX = (
    BlockGather, ChosenBlockLinear, ChosenLinear, Gather, GatherElements, GatherRows, ScatterElements,
    ScatterRows,
)  # fmt: skip


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return what native code sees of an array: of strings, nothing."""
    return _NOTHING if array.dtype.kind == "O" else array


_NOTHING = np.empty(0, np.uint8)


def _memory(plan: Plan, bound: Bound, inputs: Arrays, outputs: Arrays, context: Context) -> Memory:
    """Return what gives a tensor's memory, its axes in ONNX's order: the caller's arrays, or the arena.

    Codes lie there as bytes. An output that lies otherwise in the arena is there, until it is copied at the
    end. Strings between steps have arrays of their own.
    """
    strings: dict[str, NDArray[Any]] = {}  # `dict[...]()` would take two microseconds of each run

    def at(name: str) -> NDArray[Any]:
        if plan.tensors[name].dtype == STRING:
            for arrays in (inputs, outputs, strings):
                if name in arrays:
                    return arrays[name]
            return strings.setdefault(name, np.empty(bound.shapes[name], object))
        shape, place, dtype = bound.shapes[name], bound.place(name), np.dtype(dtype_of(plan.tensors[name]))
        if 0 in shape:  # it has no place of its own but a halo's, which need not begin within the arena
            return np.empty(shape, dtype)
        if place.block == ARENA:
            array = context.arena()
        elif place.block == bound.constant_block[0]:
            array = bound.constant_block[1]
        else:
            is_input, owner = bound.blocks[place.block]
            array = (inputs if is_input else outputs)[owner]
            if not array.flags.c_contiguous:
                return np.asarray(_Window(array, place, shape, dtype))
        return np.ndarray(shape, dtype, array.data, place.offset, place.strides)

    return at


class _Window:
    """Presents a tensor in a caller's array that is not dense, which NumPy takes for no buffer."""

    def __init__(self, array: NDArray[Any], place: Place, shape: Shape, dtype: np.dtype[Any]) -> None:
        self._array = array  # which outlives what is made of this
        self.__array_interface__ = {
            "version": 3, "shape": shape, "typestr": dtype.str, "strides": place.strides,
            "data": (array.__array_interface__["data"][0] + place.offset, False),
        }  # fmt: skip
