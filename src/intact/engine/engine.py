"""Running a plan.

    engine = Engine(plan, threads=2)
    y = engine(x)
    ys = engine.run({"image": x})

Any number of Python threads may call one engine at once; each run has memory of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.arrays import as_input, as_output
from intact.engine.bind.bound import Bound, bind
from intact.engine.bind.core import Packed, Shape
from intact.engine.execute import Seconds, execute, memory
from intact.engine.fallback import FallbackSessions
from intact.engine.files import save
from intact.engine.plan import Plan
from intact.engine.profiler import Profile, profile_of
from intact.engine.steps import Dim
from intact.errors import QuantValueError, UnsupportedError
from intact.kernels.program import Program, ThreadPool
from intact.kernels.registry import chosen_kernels
from intact.limits import THREADS

Arrays = Mapping[str, Any]
MAX_BOUND = 8
"""Sets of input shapes that an engine keeps ready."""


@dataclass(frozen=True)
class Port:
    """An input or output of an engine.

    Attributes:
        name: The model's name for it.
        dtype: Of the arrays that go in or come out.
        shape: Sizes; a name where any size will do.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]


class Engine:
    """A plan that runs.

    Args:
        plan: What to run.
        threads: Threads of a run, the caller's included; None: as many as the process may use.
        packed: Weights as kernels want them, by (constant, kernel). What is missing is packed when it is
            first needed, and added.
        deterministic: Run the parts that ONNX Runtime has on one thread each, so that the outputs are the
            same for any number of threads. Else they have all, and their last bits depend on how many.

    Attributes:
        plan: The plan.
        packed: All packed weights so far.
        inputs, outputs: `Port`s, in the model's order.
        threads, deterministic: As given.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        threads: int | None = None,
        packed: Packed | None = None,
        deterministic: bool = False,
    ) -> None:
        self._thread_pool = ThreadPool(_checked_threads(threads))
        self.threads = self._thread_pool.threads
        self.plan = plan
        self.packed: Packed = {} if packed is None else packed
        self.inputs = tuple(_port(plan, name) for name in plan.inputs)
        self.outputs = tuple(_port(plan, name) for name in plan.outputs)
        self.deterministic = deterministic
        self._subgraphs = FallbackSessions(plan, 1 if deterministic else self.threads)
        self._bound: dict[tuple[Shape, ...], Bound] = {}

    def __call__(self, *inputs: Any) -> NDArray[Any] | tuple[NDArray[Any], ...]:
        """Run on the inputs in the model's order; returns the output, a tuple where there are several."""
        if len(inputs) != len(self.inputs):
            names = ", ".join(port.name for port in self.inputs)
            raise QuantValueError(
                "engine", f"{len(inputs)} inputs", f"{len(self.inputs)}: {names}", "pass every input once"
            )
        made = self.run(dict(zip(self.plan.inputs, inputs, strict=True)))
        found = tuple(made[name] for name in self.plan.outputs)
        return found[0] if len(found) == 1 else found

    def run(self, inputs: Arrays, out: Arrays | None = None) -> dict[str, NDArray[Any]]:
        """Run once.

        Args:
            inputs: Array of each input: NumPy's or anything with DLPack on the CPU. It is not copied where
                it is dense.
            out: Arrays to write outputs into, dense, by name; the others are made.
        Returns:
            Array of each output.
        Raises:
            QuantValueError: An input or output array does not fit; names it.
        """
        given = self._checked(inputs)
        bound = self._bound_to(given)
        made = self._outputs(bound, out or {})
        context = bound.program.take()
        try:
            execute(self.plan, bound, self._subgraphs, given, made, context)
        finally:
            bound.program.give_back(context)
        return made

    def check_subgraphs(self) -> None:
        """Refuse models for ONNX Runtime that no plan of ours holds: `load` asks, and so does the first run.

        Raises:
            FileFormatError: As for `intact.graph.check_fallback`; names the step.
        """
        self._subgraphs.check()

    def prepare(self, shapes: Mapping[str, Sequence[int]]) -> Bound:
        """Make the plan native for inputs of these shapes, which the first run with them would do."""
        key = tuple(tuple(shapes[name]) for name in self.plan.inputs)
        bound = self._bound.pop(key, None)
        if bound is None:
            bound = self._make(key)
        self._bound[key] = bound  # the last used is the last in line
        while len(self._bound) > MAX_BOUND:
            self._bound.pop(next(iter(self._bound)), None)
        return bound

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a plan file, which `intact.load` reads: the plan, and its weights as kernels packed them.

        An engine that has not run yet packs for inputs with 1 for every size that is free, or leaves it to
        who loads the file where the model does not take them.
        """
        if not self._bound:
            with suppress(QuantValueError, UnsupportedError):
                self.prepare({name: array.shape for name, array in self._zeros().items()})
        save(path, self.plan, self.packed)

    def tap(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Run with memory for every tensor and return all of them, in ONNX's order of axes.

        Tensors of codes come as int8 or uint8 codes. For verification: it binds the plan anew.
        """
        given = self._checked(inputs)
        bound = self._make(tuple(array.shape for array in given.values()), reuse=False)
        made = self._outputs(bound, {})
        context = bound.program.take()
        execute(self.plan, bound, self._subgraphs, given, made, context)
        at = memory(self.plan, bound, given, made, context)
        tensors = {}
        for name in bound.shapes:
            codes = self.plan.tensors[name].codes
            if name in given or name in made:
                tensors[name] = at(name)
            elif codes is None:
                tensors[name] = at(name).copy()
            else:
                tensors[name] = (at(name) ^ np.uint8(codes.offset)).view("int8" if codes.signed else "uint8")
        return tensors

    def profile(self, inputs: Arrays | None = None, *, runs: int = 10) -> Profile:
        """Time every step.

        Args:
            inputs: As for `run`; None: zeros, and 1 for every size that is free.
            runs: Number of runs; the median of each step's times is kept.
        """
        given = self._checked(self._zeros() if inputs is None else inputs)
        bound = self._bound_to(given)
        made = self._outputs(bound, {})
        context = bound.program.take()
        taken = []
        for _ in range(runs + 1):  # the first one warms up
            seconds = Seconds(bound)
            execute(self.plan, bound, self._subgraphs, given, made, context, seconds)
            taken.append(seconds)
        bound.program.give_back(context)
        return profile_of(self.plan, bound, taken[1:])

    def _zeros(self) -> Arrays:
        shapes = {p.name: tuple(1 if isinstance(d, str) else d for d in p.shape) for p in self.inputs}
        return {p.name: np.zeros(shapes[p.name], p.dtype) for p in self.inputs}

    def _make(self, key: tuple[Shape, ...], *, reuse: bool = True) -> Bound:
        return bind(
            self.plan,
            dict(zip(self.plan.inputs, key, strict=True)),
            Program(self._thread_pool),
            kernels=chosen_kernels(),
            packed=self.packed,
            subgraph=self._subgraphs.shapes,
            reuse=reuse,
        )

    def _checked(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        _check_names(inputs, self.plan.inputs, "input")
        for name in self.plan.inputs:
            if name not in inputs:
                raise QuantValueError(f"input '{name}'", "no array", "one", "pass every input once")
        return {p.name: as_input(inputs[p.name], p.name, p.dtype) for p in self.inputs}

    def _bound_to(self, given: Mapping[str, NDArray[Any]]) -> Bound:
        return self.prepare({name: array.shape for name, array in given.items()})

    def _outputs(self, bound: Bound, out: Arrays) -> dict[str, NDArray[Any]]:
        _check_names(out, self.plan.outputs, "output")
        made = {}
        for port in self.outputs:
            shape = bound.shapes[port.name]
            array = out.get(port.name)
            fresh = array is None
            made[port.name] = (
                np.empty(shape, port.dtype) if fresh else as_output(array, port.name, port.dtype, shape)
            )
        return made


def _check_names(given: Arrays, known: Sequence[str], kind: str) -> None:
    for name in given:
        if name not in known:
            raise QuantValueError(
                f"{kind} '{name}'",
                f"a name that no {kind} has",
                f"one of {sorted(known)}",
                "correct the name",
            )


def _port(plan: Plan, name: str) -> Port:
    tensor = plan.tensors[name]
    codes = tensor.codes
    dtype = tensor.dtype if codes is None else "int8" if codes.signed else "uint8"
    return Port(name, dtype, tensor.shape)


def _checked_threads(threads: int | None) -> int | None:
    if threads is not None and threads < 1:
        raise QuantValueError("threads", str(threads), "at least 1", "give the number of threads to use")
    THREADS.check(threads or 1, "threads", QuantValueError)
    return threads
