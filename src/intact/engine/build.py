"""From a model or a plan file to an engine."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from intact.engine import files
from intact.engine.backend import Backend, Options, Packed
from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.kernels.registry import kernel_list

if TYPE_CHECKING:
    from intact.graph import Source


def compile(
    source: Source | Plan,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    threads: int | None = None,
    deterministic: bool = False,
    backend: str | Callable[[Options], Backend] = "cpu",
) -> Engine:
    """The engine of a Q/DQ model.

    Args:
        source: A path (of an ONNX file, or of a plan file), the bytes of an ONNX file, a ModelProto, an
            onnx-ir Model, or a plan.
        shapes: Sizes of inputs, by name, of a model: the engine is for these alone, with all that follows
            from them worked out; None: for all that the model takes.
        threads: Threads of a run, the caller's included; None: as many as the process may use.
        deterministic, backend: As for `Engine`.

    Raises:
        FileFormatError: The file is damaged.
        UnsupportedError: It is of a version that is not read.
        QuantValueError: The model has no such input, or takes no such shape.
    """
    if isinstance(source, str | os.PathLike) and Path(source).is_file() and files.is_plan(source):
        return load(source, threads=threads, deterministic=deterministic, backend=backend)
    if isinstance(source, Plan):
        return Engine(source, threads=threads, deterministic=deterministic, backend=backend)
    from intact.engine.lower import lower  # plans are read and run without ONNX

    return Engine(lower(source, shapes), threads=threads, deterministic=deterministic, backend=backend)


def load(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    copy: bool = False,
    deterministic: bool = False,
    backend: str | Callable[[Options], Backend] = "cpu",
) -> Engine:
    """The engine of a plan file: nothing in it is executed, and weights stay on disk until they are read.

    What runs on this machine is compared with its checksums here. Weights as they were before kernels
    packed them are compared when they are needed: by a machine on which other kernels are chosen.

    Args:
        path: The plan file.
        threads, deterministic, backend: As for `compile`.
        copy: Read the file into memory instead of mapping it, so that it may be overwritten in place.

    Raises:
        FileFormatError: The file is damaged, or of another kind, version or byte order.
        FileAccessError: The file cannot be read.
    """
    stored = files.load(path, copy=copy)
    elsewhere = _forms_elsewhere({form for _, form in stored.packed})
    here = [key for key in stored.packed if key[1] not in elsewhere]
    ready = {constant for constant, _ in here}
    # What is missing is packed into the first map; nothing is ever written to the second.
    packed = ChainMap({}, cast("Packed", stored.packed))
    engine = Engine(stored.plan, threads=threads, packed=packed, deterministic=deterministic, backend=backend)
    stored.packed.verify(here, engine.threads)
    later = {*ready, stored.plan.model}  # the model is read when it is lowered
    stored.constants.verify([name for name in stored.constants if name not in later], engine.threads)
    engine.check()
    return engine


def _forms_elsewhere(forms: Iterable[str]) -> set[str]:
    """The forms of packed weights that do not run here: those of kernels that are not chosen."""
    kernels = kernel_list()
    elsewhere = set()
    for form in forms:
        # A form is called by its kernel and what else tells it apart; some are no kernel's own.
        named = [kernel for kernel in kernels if form.startswith(kernel.name)]
        if named and not max(named, key=lambda kernel: len(kernel.name)).chosen:
            elsewhere.add(form)
    return elsewhere
