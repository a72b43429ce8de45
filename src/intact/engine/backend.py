"""Interface between plans, which are models in integer codes, and the backends that run them.

A backend makes a plan executable for one set of input shapes. What it needs for that (where bytes lie, packed
weights, threads, devices) is its own business. Every backend gives the codes of `Step.evaluate`, and the same
floats wherever `numerics` says them.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from intact.engine.plan import Plan
from intact.engine.profile import EngineProfile
from intact.engine.steps import Shape
from intact.timings import Timings

Arrays = Mapping[str, NDArray[Any]]
Packed = MutableMapping[tuple[str, str], NDArray[Any]]
"""Weights as a kernel wants them, by (constant, form): kept for all shapes, and in plan files."""


class Executable(Protocol):
    """A plan that can run on inputs of certain shapes, from several threads at once.

    Attributes:
        shapes: Of every tensor.

    It may also have ``output_shapes``, of the outputs at least, where those of all tensors take time to list.
    """

    @property
    def shapes(self) -> Mapping[str, Shape]: ...

    def run(self, inputs: Arrays, outputs: Arrays) -> None:
        """Run once: dense arrays of the inputs, and dense arrays that receive the outputs. Codes are int8 or
        uint8, as the plan's tensors say."""

    def profile(self, inputs: Arrays, runs: int) -> EngineProfile:
        """Time every step: the medians of so many runs."""


class Backend(Protocol):
    """Runs one plan.

    Attributes:
        name: What `intact.compile(backend=...)` calls it.
        threads: Threads of a run, the caller's included.
        packed: Weights that it keeps in a form of its own, for plan files.
    """

    @property
    def name(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def packed_weights(self) -> Packed: ...

    def check(self, plan: Plan) -> None:
        """Refuse plans whose parts could not be run safely, before anything runs.

        Raises:
            FileFormatError: Names the step.
        """

    def compile(
        self, plan: Plan, shapes: Mapping[str, Shape], known_shapes: Mapping[str, Shape] | None = None
    ) -> Executable:
        """Make a plan executable for inputs of these shapes.

        Args:
            plan: The plan.
            shapes: Of its inputs.
            known_shapes: Shapes that parts in ONNX Runtime made of such inputs, where a run of the executable
                ended in `SizesDiffer`; None: none did.
        Raises:
            QuantValueError: The shapes contradict each other or the plan.
            UnsupportedError: This backend cannot do a step.
        """

    def tap(self, plan: Plan, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Run once and return every tensor, by name, in ONNX's order of axes: codes as int8 or uint8.

        Args:
            plan: The plan.
            inputs: Dense arrays of its inputs, by name.
        """


@runtime_checkable
class Strided(Protocol):
    """A backend that reads and writes callers' arrays as they lie."""

    def compile_strided(
        self, plan: Plan, shapes: Mapping[str, Shape], strides: Mapping[str, Shape]
    ) -> Executable:
        """Make a plan without parts executable for arrays with strides.

        Args:
            plan: The plan.
            shapes: Of its inputs.
            strides: Bytes along each axis, of the inputs and outputs whose arrays are not dense.
        Raises:
            QuantValueError: No array can have these, or elements of an output overlap.
        """


@runtime_checkable
class Tunable(Protocol):
    """A backend whose layers have several forms, of which it can find out the fastest.

    Attributes:
        timings: What is known of them, on all machines.
    """

    timings: Timings

    def tune(self, plan: Plan, inputs: Arrays, seconds: float) -> Executable:
        """Measure the missing times, add them to `timings`, and make the plan executable by them."""

    def used(self) -> Timings:
        """Return the entries of `timings` on which a choice rests."""


@dataclass(frozen=True)
class Options:
    """Options that a backend is constructed with.

    Attributes:
        threads: Threads of a run, the caller's included; None: as many as the process may use.
        deterministic: Parts that others run (ONNX Runtime) have one thread, so that the outputs are the same
            for any number.
        packed: Packed weights of a plan file. What is missing is packed when it is first needed, and added.
        timings: What was measured of layers that have several forms: they are chosen by it.
    """

    threads: int | None = None
    deterministic: bool = False
    packed: Packed = field(default_factory=dict)
    timings: Timings = field(default_factory=Timings)


def outputs_for(plan: Plan, shapes: Mapping[str, Shape]) -> dict[str, NDArray[Any]]:
    """Allocate arrays for all outputs."""
    return {name: np.empty(shapes[name], plan.tensors[name].stored_dtype) for name in plan.outputs}
