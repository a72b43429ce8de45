"""The C library through ctypes, as a program in C has it (include/intact.h)."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.compare.c_interface import (
    DTYPES,
    MAX_RANK,
    OK,
    CErrorText,
    CMemory,
    COptions,
    CParallelFor,
    CPort,
    CShape,
    CStep,
    load_library,
)


class CError(Exception):
    """Error that a call of the library reported.

    Attributes:
        status: Of `intact_status`.
    """

    def __init__(self, error: CErrorText) -> None:
        super().__init__(error.text.decode())
        self.status = int(error.status)


def library_path() -> Path | None:
    """The library of this build; None where there is none. INTACT_LIBRARY names another one."""
    if override := os.environ.get("INTACT_LIBRARY"):
        return Path(override)
    import intact

    try:
        return Path(intact.get_library())
    except intact.IntactError:
        return None


class CPlan:
    """An open plan with one session.

    Args:
        path: Of the library.
        plan: A file, or the bytes of one.
        threads: Of a run.
        parallel_for: Runs pieces in place of its own threads: (piece, count), where piece(index) runs one.
    """

    def __init__(
        self, path: Path, plan: str | os.PathLike[str] | bytes, threads: int = 1,
        parallel_for: Callable[[Callable[[int], None], int], None] | None = None,
    ) -> None:  # fmt: skip
        self._library, self._shares = load_library(path), False
        self._plan, self._session = c.c_void_p(), c.c_void_p()
        options = COptions(c.sizeof(COptions), threads, None)
        if parallel_for is not None:
            self._parallel_for = CParallelFor(
                lambda _, piece, job, count: parallel_for(lambda index: piece(job, index), count)
            )
            options.parallel_for = self._parallel_for
        if isinstance(plan, bytes):
            self._bytes = c.create_string_buffer(plan, len(plan))
            where: tuple[Any, ...] = (c.cast(self._bytes, c.c_void_p), len(plan))
            self.call("open_memory", *where, c.byref(options), c.byref(self._plan))
        else:
            self.call("open", os.fsencode(plan), c.byref(options), c.byref(self._plan))
        self.call("session_new", self._plan, c.byref(self._session))
        self.inputs = self._ports("input")
        self.outputs = self._ports("output")

    def session(self) -> CPlan:
        """Another session of the same plan, which is open for as long as this object is."""
        session = CPlan.__new__(CPlan)
        session._library, session._plan, session._session = self._library, self._plan, c.c_void_p()
        session.inputs, session.outputs, session._shares = self.inputs, self.outputs, True
        session.call("session_new", self._plan, c.byref(session._session))
        return session

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that has an error as its last argument."""
        error = CErrorText(c.sizeof(CErrorText))
        status = getattr(self._library, f"intact_{name}")(*arguments, c.byref(error))
        if status != OK:
            assert status == error.status
            raise CError(error)

    def _ports(self, kind: str) -> list[tuple[str, str]]:
        tensors = []
        for index in range(getattr(self._library, f"intact_{kind}_count")(self._plan)):
            port = CPort(c.sizeof(CPort))
            self.call(kind, self._plan, index, c.byref(port))
            tensors.append((port.name.decode(), DTYPES[port.type]))
        return tensors

    @property
    def workspace(self) -> int:
        """Bytes that the session holds."""
        return int(self._library.intact_workspace_bytes(self._session))

    def prepare(self, shapes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Bind for inputs of these shapes; returns those of the outputs."""
        self.call("prepare", self._session, _c_shapes(shapes))
        return self.output_shapes()

    def prepare_in(self, shapes: Sequence[Sequence[int]], address: int, nbytes: int) -> None:
        """Bind for inputs of these shapes; runs use this memory."""
        self.call("prepare_in", self._session, _c_shapes(shapes), address, nbytes)

    def workspace_size(self, shapes: Sequence[Sequence[int]]) -> tuple[int, int]:
        """Bytes that runs of these shapes take, and bytes of their binding."""
        memory = CMemory(c.sizeof(CMemory))
        self.call("workspace_size", self._session, _c_shapes(shapes), c.byref(memory))
        return int(memory.workspace), int(memory.binding)

    def set_strides(self, kind: str, index: int, strides: Sequence[int] | None) -> None:
        """Let arrays of an "input" or "output" have these strides; None: dense."""
        count = 0 if strides is None else len(strides)
        array = None if strides is None else (c.c_int64 * max(1, count))(*strides)
        self.call(f"set_{kind}_strides", self._session, index, array, count)

    def output_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the outputs of the prepared session."""
        output_shapes = []
        for index in range(len(self.outputs)):
            shape = CShape()
            self.call("output_shape", self._session, index, c.byref(shape))
            output_shapes.append(tuple(shape.sizes[: shape.rank]))
        return output_shapes

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Prepare, and run once."""
        arrays = [np.ascontiguousarray(inputs[name], dtype) for name, dtype in self.inputs]
        shapes = self.prepare([np.shape(inputs[name]) for name, _ in self.inputs])
        outputs = {
            name: np.empty(shape, dtype) for (name, dtype), shape in zip(self.outputs, shapes, strict=True)
        }
        self.run_arrays(arrays, list(outputs.values()))
        return outputs

    def run_arrays(self, inputs: list[NDArray[Any]], outputs: list[NDArray[Any]]) -> None:
        """Run the prepared session once, by the addresses of the arrays' first elements."""
        self.call("run", self._session, _pointers(inputs), _pointers(outputs))

    def profile(self, inputs: Mapping[str, NDArray[Any]]) -> list[tuple[str, str, str, float]]:
        """Prepare, run once, and return name, kind, kernel and seconds of every native step."""
        arrays = [np.ascontiguousarray(inputs[name], dtype) for name, dtype in self.inputs]
        shapes = self.prepare([array.shape for array in arrays])
        outputs = [np.empty(shape, dtype) for (_, dtype), shape in zip(self.outputs, shapes, strict=True)]
        count = int(self._library.intact_step_count(self._session))
        seconds = (c.c_double * count)()
        self.call("profile", self._session, _pointers(arrays), _pointers(outputs), seconds, count)
        rows = []
        for index in range(count):
            step = CStep(c.sizeof(CStep))
            self.call("step_at", self._session, index, c.byref(step))
            rows.append((step.name.decode(), step.kind.decode(), step.kernel.decode(), seconds[index]))
        return rows

    def set_type(self, kind: str, index: int, dtype: str) -> None:
        """Let an "input" or "output" have arrays of this dtype."""
        self.call(f"set_{kind}_type", self._session, index, DTYPES.index(dtype))
        ports = list(self.inputs if kind == "input" else self.outputs)
        ports[index] = ports[index][0], dtype
        setattr(self, f"{kind}s", ports)

    def selftest(self) -> None:
        """Run the self-test of the plan."""
        self.call("selftest", self._plan)

    def cancel(self) -> None:
        """Stop the run that is going on; any thread may call it."""
        self._library.intact_cancel(self._session)

    def close(self) -> None:
        """Free the session and the plan."""
        self._library.intact_session_free(self._session)
        if not self._shares:
            self._library.intact_close(self._plan)
        self._plan, self._session = c.c_void_p(), c.c_void_p()


def _c_shapes(shapes: Sequence[Sequence[int]]) -> Any:
    return (CShape * max(1, len(shapes)))(
        *(CShape(len(sizes), (c.c_int64 * MAX_RANK)(*sizes)) for sizes in shapes)
    )


def _pointers(arrays: list[NDArray[Any]]) -> Any:
    return (c.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
