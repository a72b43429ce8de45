"""The self-test of a plan: sizes and a seed that say what goes in, and checksums of what comes out.

Inputs are bytes and 32nds of whole numbers, drawn with integers alone: every machine and language makes the
same ones. csrc/engine/selftest.cc does it in C++; docs/plan-format.md says how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.plan import MOST_ELEMENTS, Plan, SelfTest
from intact.engine.steps import STRING, Shape
from intact.errors import QuantValueError, UnsupportedError
from intact.kernels import crc32

Run = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]
"""Runs a plan: returns the outputs of inputs, by name."""

_SEED = 1


def make_selftest(plan: Plan, shapes: Sequence[Shape], run: Run) -> SelfTest | None:
    """Make the self-test of a plan.

    Args:
        plan: The plan.
        shapes: Of every input, in the plan's order.
        run: The outputs of inputs, by name, as the plan's engine makes them.

    Returns:
        None for a plan with strings, for parts that ONNX Runtime or Python runs, whose numbers differ between
        machines, and where the model does not take such sizes.
    """
    is_foreign = any(not step.native for step in plan.steps)
    if is_foreign or any(tensor.dtype == STRING for tensor in plan.tensors.values()):
        return None
    if sum(map(prod, shapes)) > MOST_ELEMENTS:
        return None
    try:
        outputs = run(draw_inputs(plan, shapes, _SEED))
    except (QuantValueError, UnsupportedError):
        return None
    return SelfTest(_SEED, tuple(shapes), tuple(checksum(outputs[name]) for name in plan.outputs))


def differing_outputs(plan: Plan, run: Run) -> tuple[str, ...]:
    """Return the names of outputs whose checksums in a plan's self-test differ from the plan's.

    Args:
        plan: The plan.
        run: The outputs of inputs, by name.

    Raises:
        UnsupportedError: The plan has no self-test.
    """
    test = plan.selftest
    if test is None:
        raise UnsupportedError(
            "engine", "a plan without a self-test", "one that `intact build` wrote",
            "build it again; plans with parts that ONNX Runtime or Python runs have none",
        )  # fmt: skip
    outputs = run(draw_inputs(plan, test.shapes, test.seed))
    wanted = zip(plan.outputs, test.checksums, strict=True)
    return tuple(name for name, number in wanted if checksum(outputs[name]) != number)


def draw_inputs(plan: Plan, shapes: Sequence[Shape], seed: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a self-test's inputs, by name.

    Args:
        plan: The plan.
        shapes: Of every input, in the plan's order.
        seed: 0 to 2**32 - 1.
    """
    return {
        name: _draw(np.dtype(plan.tensors[name].stored_dtype), shape, (seed << 32) + (number << 24))
        for number, (name, shape) in enumerate(zip(plan.inputs, shapes, strict=True))
    }


def _draw(dtype: np.dtype[Any], shape: tuple[int, ...], first: int) -> NDArray[Any]:
    """Draw bytes for codes and truths, byte / 32 - 4 for floats; other whole numbers may be indices: 0."""
    if dtype.kind in "iu" and dtype.itemsize > 1:
        return np.zeros(shape, dtype)
    random_bytes = _splitmix64(np.arange(prod(shape), dtype=np.uint64) + np.uint64(first)) >> np.uint64(56)
    random_bytes = random_bytes.reshape(shape).astype(np.uint8)
    if dtype.kind == "f":
        return ((random_bytes.astype(np.float32) - 128) / 32).astype(dtype)
    return random_bytes >> 7 != 0 if dtype.kind == "b" else random_bytes.view(dtype)


def _splitmix64(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the outputs of SplitMix64 at these counts.

    Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014.
    """
    z = (states + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def checksum(array: NDArray[Any]) -> int:
    """Return the CRC-32 of an array's bytes, row-major; of NaNs with their usual bits."""
    return crc32(bytes_of(array))


def bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of an array, row-major; of NaNs the usual ones."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
