"""Run the C library beside an engine and compare what both compute."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact._installation import c_library
from intact.engine.compare.c_interface import DIFFERENT, OK, CErrorText, COptions, CShape, load_library
from intact.engine.engine import Engine
from intact.engine.selftest import bytes_of
from intact.errors import QuantValueError, UnsupportedError


class CLibrary:
    """A plan file that the C library runs (include/intact.h).

    Args:
        engine: The same plan's engine, for the names and types of its inputs and outputs.
        path: The plan file.

    Attributes:
        inputs: Those of the engine.

    Raises:
        UnsupportedError: There is no library, or it does not run the plan.
    """

    def __init__(self, engine: Engine, path: str | os.PathLike[str]) -> None:
        library = c_library()
        try:
            self._library = load_library(library)
        except OSError as error:
            got = f"a library that does not load ({error})"
            raise UnsupportedError(str(library), got, "one for this machine", "build it here") from error
        self.inputs, self._outputs = engine.inputs, engine.outputs
        self._plan, self._session = c.c_void_p(), c.c_void_p()
        options = COptions(c.sizeof(COptions), engine.threads, None)
        try:
            self._call("open", os.fsencode(path), c.byref(options), c.byref(self._plan))
        except QuantValueError as error:
            raise UnsupportedError(
                "the C library", error.got, "a plan that it runs", "build the model with --no-fallback"
            ) from error
        self._call("session_new", self._plan, c.byref(self._session))

    def run(
        self, inputs: Mapping[str, NDArray[Any]], out: Mapping[str, NDArray[Any]] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Return the outputs of these inputs, by name, of the engine's dtypes.

        Args:
            inputs: Array of each input.
            out: Arrays to write outputs into, dense, by name; the others are made.
        Raises:
            QuantValueError: The library refuses them.
        """
        arrays = [np.asarray(inputs[port.name], port.dtype, order="C") for port in self.inputs]
        shapes = (CShape * max(1, len(arrays)))()
        for shape, array in zip(shapes, arrays, strict=False):
            shape.rank, shape.sizes[: array.ndim] = array.ndim, array.shape
        self._call("prepare", self._session, shapes)
        outputs: dict[str, NDArray[Any]] = {}
        for i, port in enumerate(self._outputs):
            size = self._shape(i)
            target = (out or {}).get(port.name, np.empty(size, port.dtype))
            if (target.shape, target.dtype) != (size, np.dtype(port.dtype)):
                raise QuantValueError(port.name, f"an array {target.shape}", f"{size}", "leave it out")
            outputs[port.name] = target
        self._call("run", self._session, _pointers(arrays), _pointers(list(outputs.values())))
        return outputs

    def passes_selftest(self) -> bool:
        """Run the self-test of the plan.

        Raises:
            QuantValueError: It has none.
        """
        return self._call("selftest", self._plan, accept=DIFFERENT) == OK

    def close(self) -> None:
        """Free the plan."""
        self._library.intact_session_free(self._session)
        self._library.intact_close(self._plan)

    def _shape(self, index: int) -> tuple[int, ...]:
        shape = CShape()
        self._call("output_shape", self._session, c.c_size_t(index), c.byref(shape))
        return tuple(shape.sizes[: shape.rank])

    def _call(self, name: str, *arguments: Any, accept: int = OK) -> int:
        error = CErrorText(c.sizeof(CErrorText))
        status = int(getattr(self._library, f"intact_{name}")(*arguments, c.byref(error)))
        if status not in (OK, accept):
            raise QuantValueError(
                f"the C library, intact_{name}", error.text.decode(errors="replace"), "no error",
                "compare with what the engine says",
            )  # fmt: skip
        return status


@contextmanager
def c_library_of(engine: Engine) -> Iterator[CLibrary]:
    """Open the C library with an engine's plan, which is written to a file for it.

    Raises:
        UnsupportedError: There is no library, or it does not run the plan.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder, "engine")
        engine.save(path)
        library = CLibrary(engine, path)
        try:
            yield library
        finally:
            library.close()


def differing_elements(a: NDArray[Any], b: NDArray[Any]) -> int:
    """Count the elements of two arrays of one dtype with other bits; all of them where the shapes differ."""
    if a.shape != b.shape:
        return max(a.size, b.size)
    differs = (bytes_of(a) != bytes_of(b)).reshape(a.size, a.itemsize)
    return int(np.count_nonzero(differs.any(axis=1)))


def _pointers(arrays: list[NDArray[Any]]) -> Any:
    return (c.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
