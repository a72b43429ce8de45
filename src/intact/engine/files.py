"""Plan files: what is in them, how it is checked, and what is checked when. The format: docs/plan-format.md.

One safetensors file. Its metadata hold the JSON of the steps, tensors and layers under "intact.plan" and
the CRC-32 of that text; its arrays are the constants, and what kernels have packed for themselves. Every
array has a CRC-32 of its own in the JSON, which is compared when the array is first asked for: a plan
starts without reading weights that nobody uses in that form.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from intact._version import __version__
from intact.engine import container
from intact.engine.codec import decode, encode, unexpected
from intact.engine.limits import check_limits
from intact.engine.plan import Plan
from intact.engine.steps import KINDS, Step, Tensor
from intact.errors import FileFormatError, QuantValueError, require_path
from intact.layer import Layer
from intact.reading import reading
from intact.timings import Timings, checked

VERSION = 4
_PLAN, _CHECKSUM = "intact.plan", "intact.plan.crc32"
_DTYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64", "float16",
    "bool",
)  # fmt: skip

Key = TypeVar("Key", bound=Hashable)
Packed = Mapping[tuple[str, str], NDArray[Any]]
"""What a kernel made of a constant for itself: by (name of the constant, name of the kernel)."""


@dataclass(frozen=True)
class _Constant:
    name: str
    dtype: str
    shape: tuple[int, ...]
    crc32: int


@dataclass(frozen=True)
class _Packed:
    constant: str
    kernel: str
    dtype: str
    shape: tuple[int, ...]
    crc32: int


@dataclass(frozen=True)
class _Timed:
    machine: str
    name: str
    seconds: float


@dataclass(frozen=True)
class _Body:
    """The JSON of a plan file, apart from its steps, whose records differ by kind."""

    version: int
    tool: str
    byte_order: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    notes: tuple[str, ...]
    model: str
    deciding: tuple[str, ...]
    constants: tuple[_Constant, ...]
    packed: tuple[_Packed, ...]
    timings: tuple[_Timed, ...]


class Verified(Mapping[Key, NDArray[Any]]):
    """Arrays of a mapped file. Each is compared with its checksum when it is first asked for."""

    def __init__(self, where: str, arrays: Mapping[Key, tuple[NDArray, int]]) -> None:
        self._where, self._arrays = where, arrays
        self._sound: set[Key] = set()

    def __getitem__(self, key: Key) -> NDArray:
        array, checksum = self._arrays[key]
        if key not in self._sound:
            if _crc32(array) != checksum:
                raise unexpected(f"{self._where}: array {key!r}", "bytes that do not match their checksum",
                                 "the bytes that were written")  # fmt: skip
            self._sound.add(key)
        return array

    def peek(self, key: Key) -> NDArray:
        """An array that may not have been compared yet: for its shape and dtype, which the JSON has."""
        return self._arrays[key][0]

    def checksum(self, key: Key) -> int:
        """The CRC-32 that the JSON has of an array."""
        return self._arrays[key][1]

    def __contains__(self, key: object) -> bool:
        return key in self._arrays

    def __iter__(self) -> Iterator[Key]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def verify(self, keys: Iterable[Key], threads: int = 1) -> None:
        """Compare these arrays now, so that a damaged file is refused before anything runs."""
        if threads == 1:
            self._verify_all(keys)
            return
        waiting = list(keys)
        with ThreadPoolExecutor(threads) as pool:  # zlib lets go of the interpreter
            for _ in pool.map(self._verify_all, [waiting[first::threads] for first in range(threads)]):
                pass

    def _verify_all(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self[key]


@dataclass(frozen=True)
class PlanFile:
    """What a plan file holds.

    Attributes:
        plan: What is to be run; its constants are `constants`.
        constants: Views of the mapped file.
        packed: What kernels had packed, likewise.
        timings: What was measured, on any machine.
    """

    plan: Plan
    constants: Verified[str]
    packed: Verified[tuple[str, str]]
    timings: Timings


def save(
    path: str | os.PathLike[str], plan: Plan, packed: Packed | None = None, timings: Timings | None = None
) -> None:
    """Write a plan file: whole or not at all, the same bytes for the same plan.

    Args:
        path: The file.
        plan: The plan.
        packed: Arrays by (constant, kernel), for machines on which these kernels are chosen.
        timings: What was measured of the plan's layers, for the machines that it was measured on.

    Raises:
        QuantValueError: An array has a dtype that plan files do not hold; names it.
    """
    packed = {} if packed is None else packed
    constants = {name: np.asarray(plan.constants[name], order="C") for name in sorted(plan.constants)}
    pieces = {key: np.ascontiguousarray(packed[key]) for key in sorted(packed)}
    _require_plain(constants)
    _require_plain(pieces)
    body = _Body(
        VERSION, __version__, sys.byteorder, plan.inputs, plan.outputs, tuple(plan.tensors.values()),
        plan.layers, plan.notes, plan.model, plan.deciding,
        tuple(_Constant(n, a.dtype.name, a.shape, _crc32(a)) for n, a in constants.items()),
        tuple(_Packed(*key, a.dtype.name, a.shape, _crc32(a)) for key, a in pieces.items()),
        tuple(_timed(Timings() if timings is None else timings)),
    )  # fmt: skip
    text = _dumps({**encode(body), "steps": encode(plan.steps)})
    arrays = {f"constant/{name}": array for name, array in constants.items()}
    arrays |= {f"packed/{kernel}/{name}": array for (name, kernel), array in pieces.items()}
    container.write(path, arrays, {_PLAN: text, _CHECKSUM: f"{zlib.crc32(text.encode()):08x}"})


def load(path: str | os.PathLike[str], *, copy: bool = False) -> PlanFile:
    """Read a plan file without executing anything; its arrays stay on disk until they are asked for.

    Args:
        path: The file.
        copy: Read all of it into memory now, so that later changes of the file do no harm.

    Raises:
        FileFormatError: The file is damaged, or of another kind, version or byte order; names the file and
            the place in it. Of arrays this is found when they are first asked for.
        FileAccessError: The file cannot be read.
    """
    require_path(path)
    where = f"file '{os.fspath(path)}'"
    metadata, views = container.read(path, copy=copy)
    content = _content(where, metadata)
    steps = content.pop("steps", None)
    body: _Body = decode(_Body, content, where)
    if not isinstance(steps, list):
        raise unexpected(f"{where}.steps", steps, "a list")
    constants, packed = _arrays(where, body, views)
    plan = Plan(
        steps=tuple(_step(entry, f"{where}.steps[{i}]") for i, entry in enumerate(steps)),
        tensors={tensor.name: tensor for tensor in body.tensors},
        constants=constants, inputs=body.inputs, outputs=body.outputs, layers=body.layers, notes=body.notes,
        model=body.model, deciding=body.deciding,
    )  # fmt: skip
    if len(plan.tensors) != len(body.tensors):
        raise unexpected(f"{where}.tensors", "a name twice", "distinct names")
    try:
        plan.check()
        check_limits(plan, {entry.name: (entry.dtype, entry.shape) for entry in body.constants})
    except FileFormatError as error:
        raise error.at(where) from error
    machines: dict[str, dict[str, float]] = {}
    for entry in body.timings:
        machines.setdefault(entry.machine, {})[entry.name] = entry.seconds
    return PlanFile(plan, constants, packed, Timings(checked(machines, f"{where}.timings")))


def _timed(timings: Timings) -> Iterator[_Timed]:
    for machine, table in sorted(timings.machines.items()):
        for name, seconds in sorted(table.items()):
            yield _Timed(machine, name, seconds)


def is_plan(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a plan file, by its first bytes; a damaged one may still be.

    Raises:
        FileAccessError: The file cannot be read.
    """
    with reading(path), Path(path).open("rb") as file:
        start = file.read(256)
    return start[8:].lstrip().startswith(b'{"__metadata__":{"' + _PLAN.encode())


def _content(where: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    """The JSON of the metadata, found to be what was written and of this version."""
    if metadata.keys() != {_PLAN, _CHECKSUM}:
        raise unexpected(where, f"metadata {', '.join(metadata)}", f"those of a plan file: {_PLAN}")
    text = metadata[_PLAN]
    if metadata[_CHECKSUM] != f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}":
        raise unexpected(where, "a plan that does not match its checksum", "the plan that was written")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise unexpected(where, f"a plan that is no JSON ({error})", "JSON") from error
    if not isinstance(content, dict):
        raise unexpected(where, content, "a JSON object")
    for key, wanted in (("version", VERSION), ("byte_order", sys.byteorder)):
        if content.get(key) != wanted:
            raise FileFormatError(
                where, f"a plan of {key.replace('_', ' ')} {content.get(key)!r:.20}", f"{wanted!r}",
                "build it from the model again, with this version and on a machine of this kind",
            )  # fmt: skip
    return content


def _step(entry: Any, where: str) -> Step:
    kind = entry.pop("kind", None) if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise unexpected(f"{where}.kind", kind, f"one of {', '.join(KINDS)}")
    step: Step = decode(KINDS[kind], entry, where)
    return step


def _arrays(
    where: str, body: _Body, views: dict[str, container.Bytes]
) -> tuple[Verified[str], Verified[tuple[str, str]]]:
    rest = dict(views)
    constants = {entry.name: _array(where, entry, f"constant/{entry.name}", rest) for entry in body.constants}
    packed = {
        (entry.constant, entry.kernel): _array(where, entry, f"packed/{entry.kernel}/{entry.constant}", rest)
        for entry in body.packed
    }
    if rest:
        raise unexpected(where, f"arrays of no constant: {', '.join(rest)}", "none")
    return Verified(where, constants), Verified(where, packed)


def _array(
    where: str, entry: _Constant | _Packed, name: str, rest: dict[str, container.Bytes]
) -> tuple[NDArray, int]:
    """A view of the bytes that are kept under `name`, which leave `rest`, and their checksum."""
    if entry.dtype not in _DTYPES or any(size < 0 for size in entry.shape):
        raise unexpected(f"{where}: '{name}'", f"{entry.dtype} {entry.shape}", "a dtype and sizes")
    dtype = np.dtype(entry.dtype)
    size = prod(entry.shape) * dtype.itemsize
    data = rest.pop(name, None)
    if data is None or data.size != container.padded(size):
        found = "no bytes" if data is None else f"{data.size} bytes"
        raise unexpected(f"{where}: '{name}'", found, f"{size} and their padding")
    return data[:size].view(dtype).reshape(entry.shape), entry.crc32


def _require_plain(arrays: Mapping[Any, NDArray]) -> None:
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES or not array.dtype.isnative:
            raise QuantValueError(f"array {name!r}", f"dtype {array.dtype}", " or ".join(_DTYPES), "cast it")


def _crc32(array: NDArray) -> int:
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
