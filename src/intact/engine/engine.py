"""Run a plan.

    engine = Engine(plan, threads=2)
    y = engine(x)
    ys = engine.run({"image": x})

Any number of Python threads may call one engine at once; each run has memory of its own.
"""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from intact.atomic import replacing
from intact.engine.backend import Backend, Executable, Options, Packed, Strided, Tunable
from intact.engine.backends import make_backend
from intact.engine.files.plan_files import load, save
from intact.engine.kernel_choices import FormChoice
from intact.engine.lru_cache import Key, Recent, key_of
from intact.engine.plan import Plan
from intact.engine.profile import EngineProfile
from intact.engine.reference import sizes_of_parts
from intact.engine.selftest import differing_outputs, make_selftest
from intact.engine.shapes import retry_with_sizes, zeros_of
from intact.engine.specialize import Plans
from intact.engine.steps import BlockFloatLinear, ChosenBlockLinear, Dim, Shape, Step
from intact.engine.steps.base.wiring import constants
from intact.engine.user_arrays import as_input, as_output, strides_of
from intact.errors import QuantValueError, UnsupportedError
from intact.limits import THREADS
from intact.processes import cached_property
from intact.timings import Timings

Arrays = Mapping[str, Any]
Used = TypeVar("Used")

LONGEST = 10**6
"""Seconds that `tune` may be given: eleven days."""


@dataclass(frozen=True)
class Port:
    """An input or output of an engine.

    Attributes:
        name: The model's name for it.
        dtype: Of the arrays that go in or come out; "object" of strings.
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
        backend: "cpu": native kernels; "reference": plain NumPy, slow, with the same codes. Or a function
            that makes a `Backend` from `Options`.
        timings: What was measured of layers that have several forms, on any machine; None: nothing.

    Attributes:
        plan: The plan, for all shapes of the inputs.
        backend: What runs it.
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
        backend: str | Callable[[Options], Backend] = "cpu",
        timings: Timings | None = None,
    ) -> None:
        options = Options(
            _check_threads(threads), deterministic, {} if packed is None else packed,
            Timings() if timings is None else timings,
        )  # fmt: skip
        self.backend = make_backend(backend, options)
        self.threads = self.backend.threads
        self.plan, self._plans = plan, Plans(plan)
        self.inputs = tuple(_port(plan, name) for name in plan.inputs)
        self.outputs = tuple(_port(plan, name) for name in plan.outputs)
        self.deterministic = deterministic
        self._arguments = {"threads": threads, "deterministic": deterministic, "backend": backend}
        self._ready = Recent[Executable](_nbytes)
        self._made = Recent[dict[str, Shape]]()

    @property
    def packed_weights(self) -> Packed:
        """All weights that the backend has packed so far, by (constant, form)."""
        return self.backend.packed_weights

    def __call__(self, *inputs: Any) -> NDArray[Any] | tuple[NDArray[Any], ...]:
        """Run on the inputs in the model's order; returns the output, a tuple where there are several."""
        if len(inputs) != len(self.inputs):
            names = ", ".join(port.name for port in self.inputs)
            raise QuantValueError(
                "engine", f"{len(inputs)} inputs", f"{len(self.inputs)}: {names}", "pass every input once"
            )
        outputs = self.run(dict(zip(self.plan.inputs, inputs, strict=True)))
        arrays = tuple(outputs[name] for name in self.plan.outputs)
        return arrays[0] if len(arrays) == 1 else arrays

    def run(self, inputs: Arrays, out: Arrays | None = None) -> dict[str, NDArray[Any]]:
        """Run once.

        Args:
            inputs: Array of each input: NumPy's or anything with DLPack on the CPU. It is not copied where
                it is dense, nor where it is large and native code runs the whole plan: turned axes and gaps
                are read as they lie. Of strings, an array of NumPy's strings, or of Python's (dtype object).
            out: Arrays to write outputs into by name; the others are made. They are dense, unless native code
                runs the whole plan.
        Returns:
            Array of each output; of strings, of Python's (dtype object).
        Raises:
            QuantValueError: An input or output array does not fit; names it.
        """
        arrays = self._check_inputs(inputs, strided=self._takes_strides)
        strides = strides_of(arrays | (self._fitting(out) if out else {})) if self._takes_strides else {}

        def run(executable: Executable) -> dict[str, NDArray[Any]]:
            outputs = self._outputs(executable, out or {})
            executable.run(arrays, outputs)
            return outputs

        if strides:
            return run(self._executable_of_strides(self._sizes(_shapes(arrays)), strides))
        return self._with_executable(arrays, run)

    @cached_property
    def _takes_strides(self) -> bool:
        """Return whether arrays may lie in any way: native code runs the whole plan, whatever the sizes."""
        native = all(step.native for step in self.plan.steps) and not self.plan.model
        return native and isinstance(self.backend, Strided)

    def _fitting(self, out: Arrays) -> dict[str, Any]:
        """Return the arrays of outputs that have as many axes as these; `_outputs` refuses the others."""
        ranks = {port.name: len(port.shape) for port in self.outputs}
        return {name: array for name, array in out.items() if np.ndim(array) == ranks.get(name)}

    def _executable_of_strides(self, sizes: dict[str, Shape], strides: dict[str, Shape]) -> Executable:
        backend = self.backend
        assert isinstance(backend, Strided)
        key = (tuple(sizes.values()), tuple(strides.items()))
        return self._ready.get(key, lambda: backend.compile_strided(self.plan, sizes, strides))

    def _with_executable(self, arrays: Arrays, use: Callable[[Executable], Used]) -> Used:
        """Call `use` with an executable for these inputs, chosen by shapes and by deciding values.

        The next inputs of such shapes begin with them.
        """
        sizes, deciding = self._sizes(_shapes(arrays)), self._plans.deciding(arrays)
        key = key_of(sizes, deciding)
        known_shapes = dict(self._made.peek(key, {}))
        used = retry_with_sizes(
            lambda: use(self._executable(sizes, deciding, known_shapes, key)), known_shapes,
            lambda: sizes_of_parts(self._plans.at(sizes, deciding), arrays),
        )  # fmt: skip
        if known_shapes:
            self._made.put(key, known_shapes)
        return used

    def check(self) -> None:
        """Refuse parts of the plan that could not be run safely: `load` asks, and so does the first run.

        Raises:
            FileFormatError: Names the step.
        """
        self.backend.check(self.plan)

    def prepare(self, shapes: Mapping[str, Sequence[int]], values: Arrays | None = None) -> Executable:
        """Make the plan executable for inputs of these shapes, which the first run with them would do.

        Args:
            shapes: Of every input.
            values: Of the inputs that decide between branches (`Plan.deciding`); others are left alone. None:
                the branches stay open.
        """
        sizes, deciding = self._sizes(shapes), self._plans.deciding(values or {})
        key = key_of(sizes, deciding)
        return self._executable(sizes, deciding, self._made.peek(key, {}), key)

    def _executable(
        self, sizes: dict[str, Shape], deciding: Mapping[str, NDArray[Any]],
        known_shapes: Mapping[str, Shape], key: Key,
    ) -> Executable:  # fmt: skip
        """Return the cached executable, or bind one; `known_shapes`: of outputs of parts, as far as known."""
        known_shapes = dict(known_shapes)

        def compile_plan() -> Executable:
            with self._plans.explain_size_errors():
                plan = self._plans.at(sizes, deciding)
                return (
                    self.backend.compile(plan, sizes, known_shapes)
                    if known_shapes
                    else self.backend.compile(plan, sizes)
                )

        return self._ready.get((*key, *known_shapes.items()), compile_plan)

    def tune(self, seconds: float = 1.0, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        """Time the forms that layers have on this machine, and run the fastest from now on. No bit changes.

        Layers of other shapes than these are not timed, nor are those of which the engine was given figures.

        Args:
            seconds: For all of it, about: every form runs a few times even where that takes longer.
            shapes: Of every input; None: the model's, and 1 for every size that is free.

        Raises:
            QuantValueError: The shapes contradict the model, or `seconds` is no number above 0.
            UnsupportedError: The backend has one form of everything.
        """
        if not 0 < seconds < LONGEST:
            raise QuantValueError("seconds", str(seconds), f"0 to {LONGEST:,}", "give seconds, such as 1.0")
        if not isinstance(self.backend, Tunable):
            raise UnsupportedError(
                f"backend '{self.backend.name}'", "one form of every layer", "several to choose from",
                'leave this out, or take backend="cpu"',
            )  # fmt: skip
        backend, zeros = self.backend, self._zeros()
        if shapes is not None:
            zeros = {p.name: zeros_of(tuple(shapes[p.name]), p.dtype) for p in self.inputs}
        arrays = {name: _noise(array) for name, array in self._check_inputs(zeros).items()}
        sizes, deciding = _shapes(arrays), self._plans.deciding(arrays)
        with self._plans.explain_size_errors():
            tuned = backend.tune(self._plans.at(sizes, deciding), arrays, seconds)
        self._ready = Recent[Executable](_nbytes)
        self._ready.get(key_of(sizes, deciding), lambda: tuned)

    def choices(self) -> list[tuple[Step, FormChoice]]:
        """Return the layers that have several forms on this machine, each with the form that runs and its
        reason.

        For the shapes of the last run; before the first one, the model's, and 1 for every size that is free.
        """
        if not self._ready:
            self.prepare(_shapes(self._zeros()))
        return list(getattr(self._ready.last, "choices", ()))

    def add_selftest(self) -> bool:
        """Give the plan a self-test, which `save` writes and `selftest` runs.

        Returns:
            False where there can be none (`make_selftest`).
        """
        shapes = [array.shape for array in self._zeros().values()]
        self.plan = replace(self.plan, selftest=make_selftest(self.plan, shapes, self.run))
        return self.plan.selftest is not None

    def selftest(self) -> tuple[str, ...]:
        """Run the self-test of the plan; returns the names of outputs that another machine's differ from.

        Raises:
            UnsupportedError: The plan has no self-test.
        """
        return differing_outputs(self.plan, self.run)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a plan file, which `intact.load` reads: the plan, and its weights as kernels packed them.

        An engine that has not run yet packs for inputs with 1 for every size that is free, or leaves it to
        who loads the file where the model does not take them.
        """
        if not self._ready:
            with suppress(QuantValueError, UnsupportedError):
                self.prepare(_shapes(self._zeros()))
        owners = self.plan.constants.keys() - _weights_to_widen(self.plan)
        packed = {key: array for key, array in self.packed_weights.items() if key[0] in owners}
        save(path, self.plan, packed, self.backend.used() if isinstance(self.backend, Tunable) else None)

    def __reduce__(self) -> tuple[Callable[..., Engine], tuple[bytes, dict[str, Any]]]:
        """Pickle and copy an engine as its plan file; threads and memory of a run are made anew.

        Raises:
            UnsupportedError: The backend was given as a function.
        """
        if not isinstance(self._arguments["backend"], str):
            raise UnsupportedError(
                "engine", f"a backend that is a function, {self.backend.name!r}", "one with a name",
                "save the engine to a file, and load that with backend=",
            )  # fmt: skip
        with TemporaryDirectory() as folder:
            path = Path(folder, "engine")
            self.save(path)
            return _from_bytes, (path.read_bytes(), self._arguments)

    def tap(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Run with memory for every tensor and return all of them, in ONNX's order of axes.

        Tensors of codes come as int8 or uint8 codes. For verification: it is slower than a run.
        """
        arrays = self._check_inputs(inputs)
        with self._plans.explain_size_errors():
            return self.backend.tap(self.plan_for(_shapes(arrays), arrays), arrays)

    def plan_for(self, shapes: Mapping[str, Sequence[int]], values: Arrays | None = None) -> Plan:
        """Return the plan that runs inputs of these shapes and values: `plan`, or one specialized for them.

        Args:
            shapes: Sizes of every input, by name.
            values: What the inputs hold that decide sizes or branches; None: there are none such.
        """
        return self._plans.at(self._sizes(shapes), self._plans.deciding(values or {}))

    def _sizes(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, Shape]:
        return {name: tuple(shapes[name]) for name in self.plan.inputs}

    def profile(self, inputs: Arrays | None = None, *, runs: int = 10) -> EngineProfile:
        """Time every step.

        Args:
            inputs: As for `run`; None: zeros, and 1 for every size that is free.
            runs: Number of runs; the median of each step's times is kept.
        """
        arrays = self._check_inputs(self._zeros() if inputs is None else inputs)
        return self._with_executable(arrays, lambda executable: executable.profile(arrays, runs))

    def _zeros(self) -> Arrays:
        shapes = {p.name: tuple(1 if isinstance(d, str) else d for d in p.shape) for p in self.inputs}
        return {p.name: zeros_of(shapes[p.name], p.dtype) for p in self.inputs}

    def _check_inputs(self, inputs: Arrays, *, strided: bool = False) -> dict[str, NDArray[Any]]:
        _check_names(inputs, self.plan.inputs, "input")
        for name in self.plan.inputs:
            if name not in inputs:
                raise QuantValueError(f"input '{name}'", "no array", "one", "pass every input once")
        return {p.name: as_input(inputs[p.name], p.name, p.dtype, strided=strided) for p in self.inputs}

    def _outputs(self, executable: Executable, out: Arrays) -> dict[str, NDArray[Any]]:
        _check_names(out, self.plan.outputs, "output")
        outputs = {}
        shapes: Mapping[str, Shape] = getattr(executable, "output_shapes", None) or executable.shapes
        for port in self.outputs:
            shape = shapes[port.name]
            array = out.get(port.name)
            fresh = array is None
            outputs[port.name] = (
                np.empty(shape, port.dtype)
                if fresh
                else as_output(array, port.name, port.dtype, shape, strided=self._takes_strides)
            )
        return outputs


def _weights_to_widen(plan: Plan) -> set[str]:
    """Return the constants that nothing but products of floats with block weights reads.

    Their plans stay as large as the model: to pack them takes less time than one of their products.
    """
    widening, read = set[str](), set[str]()
    for step in plan.steps:
        widens = isinstance(step, BlockFloatLinear) or (
            isinstance(step, ChosenBlockLinear) and not step.x_scales
        )
        (widening if widens else read).update(constants(step))
    return widening - read


def _nbytes(executable: Executable) -> int:
    """Return the bytes that an executable holds, as far as its backend counts them."""
    return int(getattr(executable, "nbytes", 0))


def _from_bytes(data: bytes, arguments: Mapping[str, Any]) -> Engine:
    """Load an engine from a plan file's bytes in memory."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "engine")
        with replacing(path) as new:
            new.write(data)
        stored = load(path, copy=True)
    packed = ChainMap({}, cast("Packed", stored.packed))  # what is missing is packed into the first map
    engine = Engine(stored.plan, packed=packed, timings=stored.timings, **arguments)
    engine.check()
    return engine


def _noise(zeros: NDArray[Any]) -> NDArray[Any]:
    """Return data to measure with.

    Integers stay 0, because they may be indices or decide between branches.
    """
    if zeros.dtype.kind != "f":
        return zeros
    return np.random.default_rng(0).standard_normal(zeros.shape).astype(zeros.dtype)


def _shapes(arrays: Arrays) -> dict[str, Shape]:
    return {name: np.shape(array) for name, array in arrays.items()}


def _check_names(arrays: Arrays, names: Sequence[str], kind: str) -> None:
    for name in arrays:
        if name not in names:
            raise QuantValueError(
                f"{kind} '{name}'",
                f"a name that no {kind} has",
                f"one of {sorted(names)}",
                "correct the name",
            )


def _port(plan: Plan, name: str) -> Port:
    return Port(name, plan.tensors[name].stored_dtype, plan.tensors[name].shape)


def _check_threads(threads: int | None) -> int | None:
    if threads is not None and threads < 1:
        raise QuantValueError("threads", str(threads), "at least 1", "give the number of threads to use")
    THREADS.check(threads or 1, "threads", QuantValueError)
    return threads
