"""Build an engine from a model or a plan file."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import NDArray

from intact.engine.backend import Backend, Options, Packed
from intact.engine.engine import Engine
from intact.engine.files import plan_files as files
from intact.engine.plan import Plan
from intact.errors import QuantValueError, require_path
from intact.kernels import alternatives, kernel_list, kernels_in_use
from intact.processes import reads_untrusted_files, try_file, untrusted_files
from intact.reading import reading
from intact.timings import Timings

if TYPE_CHECKING:
    from intact.graph import Source


def compile(
    source: Source | Plan,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    threads: int | None = None,
    deterministic: bool = False,
    backend: str | Callable[[Options], Backend] = "cpu",
    tune_seconds: float | None = None,
    timing_cache: str | os.PathLike[str] | Timings | None = None,
) -> Engine:
    """Compile a Q/DQ model into an engine.

    Layers have several forms: kernels of other instruction sets, Winograd's. A cost model chooses, unless
    this machine is asked to measure. The choice changes no bit.

    Args:
        source: A path (of an ONNX file, or of a plan file), the bytes of an ONNX file, a ModelProto, an
            onnx-ir Model, or a plan.
        shapes: Sizes of inputs, by name, of a model: the engine is for these alone, with all that follows
            from them worked out; None: for all that the model takes.
        threads: Threads of a run, the caller's included; None: as many as the process may use.
        deterministic, backend: As for `Engine`.
        tune_seconds: Measure about so long, for the shapes of the inputs as `Engine.tune` takes them, and run
            what is fastest; a second is enough for ResNet-50. None: nothing is measured.
        timing_cache: What was measured before; or a file of it, which need not exist yet and gets what is
            measured now. What it knows is not measured again: the same cache gives the same choice.

    Raises:
        FileFormatError: The file is damaged.
        UnsupportedError: It is of a version that is not read.
        QuantValueError: The model has no such input, or takes no such shape.
    """
    cache_path = None if isinstance(timing_cache, Timings) else timing_cache
    timings = (
        timing_cache
        if isinstance(timing_cache, Timings)
        else Timings.load(cache_path)
        if cache_path
        else Timings()
    )
    if isinstance(source, str | os.PathLike):
        require_path(source)
    if isinstance(source, str | os.PathLike) and Path(source).is_file() and files.is_plan(source):
        engine = load(source, threads=threads, deterministic=deterministic, backend=backend, timings=timings)
    else:
        from intact.engine.lower import lower  # plans are read and run without ONNX

        tried = isinstance(source, str | os.PathLike | bytes) and reads_untrusted_files()
        if tried:
            _try_untrusted(source, shapes)
        with untrusted_files(reads_untrusted_files() and not tried):
            plan = source if isinstance(source, Plan) else lower(source, shapes)
        engine = Engine(
            plan, threads=threads, deterministic=deterministic, backend=backend, timings=timings
        )  # fmt: skip
    if tune_seconds is not None:
        engine.tune(tune_seconds)
        if cache_path is not None:
            timings.save(cache_path)
    return engine


def _try_untrusted(source: Any, shapes: Mapping[str, Sequence[int]] | None) -> None:
    """Let the limited process lower a model first: ONNX's code may end the process."""
    where = "model" if isinstance(source, bytes) else str(source)
    sizes = None if shapes is None else {name: list(shape) for name, shape in shapes.items()}
    with nullcontext() if isinstance(source, bytes) else reading(source):
        try_file(where, "intact.engine.lower:lower", source, shapes=sizes)


def run_reference(source: Source | Plan, inputs: Any) -> dict[str, NDArray[Any]]:
    """Run `source` by the integer reference and return its outputs; see `intact.run_reference`.

    Args:
        source: As for `compile`.
        inputs: Arrays by name, or the array itself where there is one input.
    Raises:
        QuantValueError: The inputs do not fit; names the input.
    """
    engine = compile(source, threads=1, deterministic=True, backend="reference")
    if isinstance(inputs, Mapping):
        return engine.run(inputs)
    names = [port.name for port in engine.inputs]
    if len(names) != 1:
        raise QuantValueError(
            "run_reference: inputs", f"a {type(inputs).__name__} for {len(names)} inputs",
            f"arrays by name: {', '.join(names)}", "pass a dict",
        )  # fmt: skip
    return engine.run({names[0]: inputs})


def load(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    copy: bool = False,
    deterministic: bool = False,
    backend: str | Callable[[Options], Backend] = "cpu",
    timings: Timings | None = None,
) -> Engine:
    """Load an engine from a plan file.

    Nothing in it is executed, and weights stay on disk until they are read.

    What runs on this machine is compared with its checksums here. Weights as they were before kernels
    packed them are compared when they are needed: by a machine on which other kernels are chosen.

    Args:
        path: The plan file.
        threads, deterministic, backend: As for `compile`.
        copy: Read the file into memory instead of mapping it, so that it may be overwritten in place.
        timings: What was measured of layers, beside what the file has: filled up with that.

    Raises:
        FileFormatError: The file is damaged, or of another kind, version or byte order.
        FileAccessError: The file cannot be read.
    """
    stored = files.load(path, copy=copy)
    timings = Timings() if timings is None else timings
    timings.add(stored.timings)
    forms, chosen = {form for _, form in stored.packed}, set(kernels_in_use().values())
    possible_kernels = {name for family in kernels_in_use() for name in alternatives(family)}
    possible, usual = _forms_of(forms, chosen | possible_kernels), _forms_of(forms, chosen)
    here = [key for key in stored.packed if key[1] in possible]
    # Which layers have another kernel than the usual one is known when they are bound: weights are compared.
    ready = {constant for constant, form in here if form in usual}
    # What is missing is packed into the first map; nothing is ever written to the second.
    packed = ChainMap({}, cast("Packed", stored.packed))
    engine = Engine(
        stored.plan, threads=threads, packed=packed, deterministic=deterministic, backend=backend,
        timings=timings,
    )  # fmt: skip
    stored.packed.verify(here, engine.threads)
    later = {*ready, stored.plan.model}  # the model is read when it is lowered
    stored.constants.verify([name for name in stored.constants if name not in later], engine.threads)
    engine.check()
    return engine


def _forms_of(forms: Iterable[str], kernels: Container[str]) -> set[str]:
    """Return the forms of packed weights that belong to these kernels, or to none in particular."""
    names = [kernel.name for kernel in kernel_list()]

    def owner(form: str) -> str:  # a form is called by its kernel and what else tells it apart
        return max((name for name in names if form.startswith(name)), key=len, default="")

    return {form for form in forms if not owner(form) or owner(form) in kernels}
