"""`SessionSignature`: the inputs and outputs of a session, and whether its runs can be moved at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

_DTYPES = {
    f"tensor({name})": np.dtype(dtype)
    for name, dtype in {
        "float": "f4", "float16": "f2", "double": "f8", "bool": "?", "int8": "i1", "uint8": "u1",
        "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8",
    }.items()
}  # fmt: skip
CPU_PROVIDER = "CPUExecutionProvider"
_REMOTE_PROVIDER = "AzureExecutionProvider"
"""It takes nodes that call a service, and leaves the rest to the next one. Wheels for processors list it
first among the available ones, so that programs which pass these have it."""

ATTRIBUTE = "_intact_model"
"""The attribute of a session that holds its `ServedModel`, with the native session that it was made for.
Sessions without it run as if INTact were not there."""

altered_options: WeakSet[Any] = WeakSet()
"""Session options that got initializers from the program's memory: the file is not what runs."""


@dataclass(frozen=True)
class InputPort:
    """Describes an input: its name, dtype, and sizes, None where any will do."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class SessionSignature:
    """Describes what goes in and comes out.

    Attributes:
        inputs: In the session's order.
        outputs: Names, in the session's order.
        threads: Of a run; None: ONNX Runtime's choice.
        level: ONNX Runtime's optimization level, a number.
    """

    inputs: tuple[InputPort, ...]
    outputs: tuple[str, ...]
    threads: int | None
    level: int

    def fitting(self, feed: Any) -> dict[str, NDArray[Any]] | None:
        """Return the arrays of a run, in order; None where ONNX Runtime has to look at them.

        It takes arrays of exactly these dtypes and sizes, and lists of numbers; its errors are its own.
        """
        if type(feed) is not dict and not isinstance(feed, Mapping):  # the class of most costs a microsecond
            return None
        if len(feed) != len(self.inputs):
            return None
        arrays = {}
        for port in self.inputs:
            array = feed.get(port.name)
            if isinstance(array, list):
                array = _array_of_list(array, port.dtype)
            if not isinstance(array, np.ndarray) or array.dtype != port.dtype or not array.size:
                return None
            arrays[port.name] = array
            if array.shape == port.shape:
                continue
            if len(array.shape) != len(port.shape):
                return None
            for size, expected_size in zip(array.shape, port.shape, strict=True):
                if expected_size is not None and size != expected_size:
                    return None
        return arrays


def are_finite(arrays: Mapping[str, NDArray[Any]], names: Iterable[str]) -> bool:
    """Return whether the arrays of these names have no NaN and no infinities."""
    return all(np.isfinite(arrays[name]).all() for name in names)


def _array_of_list(values: list[Any], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return the array that ONNX Runtime makes of a list; None where numbers would change, or are none."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        return None
    if array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
        return None
    if dtype.kind not in "iuf":
        return None
    if dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            return None
    return array.astype(dtype)


def signature_of(session: Any) -> SessionSignature | str:
    """Return the signature of a session of ONNX Runtime; where its runs have to stay there, why."""
    providers = [name for name in session.get_providers() if name != _REMOTE_PROVIDER]
    if providers[:1] != [CPU_PROVIDER]:
        return f"it runs on {providers[0] if providers else 'no provider'}"
    options = session.get_session_options()
    if options.enable_profiling:
        return "the program profiles it in ONNX Runtime"
    ports = []
    for node in session.get_inputs():
        if node.type not in _DTYPES:
            return f"input '{node.name}' is a {node.type}"
        shape = tuple(size if isinstance(size, int) and size >= 0 else None for size in node.shape)
        ports.append(InputPort(node.name, _DTYPES[node.type], shape))
    for node in session.get_outputs():
        if node.type not in _DTYPES:
            return f"output '{node.name}' is a {node.type}"
    if not ports:
        return "it has no inputs"
    level = options.graph_optimization_level
    return SessionSignature(
        tuple(ports), tuple(node.name for node in session.get_outputs()),
        options.intra_op_num_threads or None, int(getattr(level, "value", level)),
    )  # fmt: skip
