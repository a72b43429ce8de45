"""The meaning of a plan, in plain NumPy over `numerics`: what every other backend equals. NORMATIVE.

codes = evaluate(plan, {"image": x})["conv1.codes"]
engine = intact.compile("model.onnx", backend="reference")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.backend import Arrays, Options, Packed
from intact.engine.plan import Plan
from intact.engine.profile import EngineProfile, Timing, work_of
from intact.engine.shapes import SizesDiffer, fallback_shapes, infer_shapes, loose_outputs
from intact.engine.steps import FallbackSubgraph, Shape, Step
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.wiring import writes
from intact.errors import IntactError, QuantValueError
from intact.limits import ENGINE_BYTES


def evaluate(
    plan: Plan, inputs: Mapping[str, NDArray[Any]], overrides: Mapping[str, NDArray[Any]] | None = None
) -> dict[str, NDArray[np.generic]]:
    """Evaluate every tensor of `plan` for some inputs: codes as int8 or uint8, everything else as it is.

    Args:
        plan: A checked plan.
        inputs: The inputs by name; where one has codes, its codes.
        overrides: What subgraphs have all_shapes elsewhere, by name, to go on from; None: they run here.
    Raises:
        QuantValueError: An input is missing, or has another dtype or shape than the plan says.

    Rule N43.
    """
    run = _start_run(plan, inputs)
    for step in plan.steps:
        if overrides is not None and isinstance(step, FallbackSubgraph):
            for name in step.ys:
                run.bind(name, overrides[name])
        else:
            _evaluate(run, step)
    return run.arrays


def sizes_of_parts(plan: Plan, inputs: Mapping[str, NDArray[Any]]) -> dict[str, Shape]:
    """Return the output sizes of parts in ONNX Runtime, by evaluating the plan, which is slow."""
    return _of_parts(plan, evaluate(plan, inputs))


def _of_parts(plan: Plan, tensors: Mapping[str, NDArray[np.generic]]) -> dict[str, Shape]:
    parts = (step for step in plan.steps if isinstance(step, FallbackSubgraph))
    return {name: tensors[name].shape for step in parts for name in step.ys}


def _start_run(plan: Plan, inputs: Mapping[str, NDArray[Any]]) -> Run:
    run = Run(plan.tensors, plan.constants, loose_outputs(plan))
    for name in plan.inputs:
        wanted, got = plan.tensors[name].stored_dtype, inputs.get(name)
        if got is None or np.asarray(got).dtype.name != wanted:
            got_text = "nothing" if got is None else f"dtype {np.asarray(got).dtype}"
            raise QuantValueError(f"input '{name}'", got_text, wanted, f"give {', '.join(plan.inputs)}")
        run.bind(name, np.asarray(got))
    return run


def _evaluate(run: Run, step: Step) -> None:
    try:
        with np.errstate(all="ignore"):  # what leaves float32 is infinite, as in the engine
            step.evaluate(run)
    except IntactError:
        raise
    except (ValueError, MemoryError) as error:  # of NumPy, about shapes that fit for other inputs alone
        where, fix = f"step '{step.name}'", "give inputs of the shapes that the model was all_shapes for"
        raise QuantValueError(where, f"'{error}'", "sizes that fit each other", fix) from error


class ReferenceBackend:
    """The evaluator as a backend: slow, with nothing chosen, packed or shared out.

    Attributes:
        name: "reference".
        threads, packed: 1, and what it was given: it packs nothing.
    """

    name = "reference"

    def __init__(self, options: Options) -> None:
        self.threads = 1
        self.packed_weights: Packed = options.packed

    def check(self, plan: Plan) -> None:
        """Refuse models for ONNX Runtime that no plan of ours holds; names the step."""
        for step in plan.steps:
            if isinstance(step, FallbackSubgraph):
                step.check_model(plan.constants, plan.tensors)

    def compile(
        self, plan: Plan, shapes: Mapping[str, Shape], known_shapes: Mapping[str, Shape] | None = None
    ) -> ReferenceExecutable:
        """Find the shapes; everything else is done when it runs."""
        sizes = known_shapes or {}

        def fallback(step: Step, input_shapes: Mapping[str, Shape]) -> dict[str, Shape]:
            if output_shapes := {name: sizes[name] for name in writes(step) if name in sizes}:
                return output_shapes
            return fallback_shapes(
                plan, step, input_shapes, lambda part: part.session(plan.constants, plan.tensors, 1)
            )

        all_shapes = infer_shapes(plan, shapes, fallback)
        for name, shape in all_shapes.items():
            nbytes = prod(shape) * np.dtype(plan.tensors[name].stored_dtype).itemsize
            ENGINE_BYTES.check(nbytes, f"tensor '{name}'", QuantValueError)
        return ReferenceExecutable(plan, all_shapes)

    def tap(self, plan: Plan, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Return every tensor, as `evaluate` does."""
        return evaluate(plan, inputs)


@dataclass(frozen=True)
class ReferenceExecutable:
    """A plan, and the shapes of its tensors.

    Attributes:
        plan, shapes: They.
    """

    plan: Plan
    shapes: dict[str, Shape]

    @property
    def output_shapes(self) -> dict[str, Shape]:
        """Of every tensor, outputs among them."""
        return self.shapes

    def run(self, inputs: Arrays, outputs: Arrays) -> None:
        """Evaluate once."""
        tensors = evaluate(self.plan, inputs)
        part_shapes = _of_parts(self.plan, tensors)
        for name, shape in part_shapes.items():
            if shape != self.shapes[name]:
                raise SizesDiffer(name, self.shapes[name], part_shapes)
        for name, into in outputs.items():
            np.copyto(into, tensors[name])

    def profile(self, inputs: Arrays, runs: int) -> EngineProfile:
        """Time every step's evaluation."""
        elapsed = [self._time_steps(inputs) for _ in range(runs)]
        medians = np.median(elapsed, axis=0)
        return EngineProfile(
            tuple(
                Timing(step.name, step.kind, ("numpy",), float(took), *work_of(self.plan, self.shapes, step))
                for step, took in zip(self.plan.steps, medians, strict=True)
            )
        )

    def _time_steps(self, inputs: Arrays) -> list[float]:
        run, elapsed = _start_run(self.plan, inputs), []
        for step in self.plan.steps:
            start = perf_counter()
            _evaluate(run, step)
            elapsed.append(perf_counter() - start)
        return elapsed
