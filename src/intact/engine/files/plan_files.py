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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact._version import __version__
from intact.engine.codec import decode, encode, format_error
from intact.engine.compact_constants import Form, Stored, compact_reals
from intact.engine.files import container
from intact.engine.files.limits import check_limits
from intact.engine.files.panel_codes import PanelCodes, find_panels, form_of
from intact.engine.files.verified import OtherForm, Verified
from intact.engine.model_pieces import MOST, Joined, Piece, join_models, views_of
from intact.engine.plan import Plan, SelfTest
from intact.engine.shapes import borrow
from intact.engine.steps import KINDS, FallbackSubgraph, Gather, Step, Tensor
from intact.errors import FileFormatError, QuantValueError, require_path
from intact.kernels import crc32
from intact.layer import Layer
from intact.reading import reading
from intact.timings import Timings, check_table

VERSION = 7
_PLAN, _CHECKSUM = "intact.plan", "intact.plan.crc32"
_DTYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64", "float16",
    "bool",
)  # fmt: skip

Packed = Mapping[tuple[str, str], NDArray[Any]]
"""Packed weights of kernels, by (name of the constant, name of the kernel)."""


@dataclass(frozen=True)
class _Constant:
    name: str
    dtype: str
    shape: tuple[int, ...]
    crc32: int


@dataclass(frozen=True)
class _Stored:
    constant: str
    form: Form


@dataclass(frozen=True)
class _Joined:
    constant: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class _Panels:
    constant: str
    inputs: int
    bits: int


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
    stored: tuple[_Stored, ...]
    panels: tuple[_Panels, ...]
    joined: tuple[_Joined, ...]
    packed: tuple[_Packed, ...]
    timings: tuple[_Timed, ...]


@dataclass(frozen=True)
class PlanFile:
    """Holds the contents of a plan file.

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
        packed: Arrays by (constant, kernel), for machines on which these kernels are chosen. Left out of
            constants that are held in fewer bits than they have, or that rows are gathered of.
        timings: What was measured of the plan's layers, for the machines that it was measured on.

    Raises:
        QuantValueError: An array has a dtype that plan files do not hold; names it.
    """
    packed = {} if packed is None else packed
    constants = {name: np.asarray(borrow(plan, name), order="C") for name in sorted(plan.constants)}
    stored = {name: few for name, array in constants.items() if (few := _in_fewer_bits(plan, name, array))}
    # Of a table that rows are gathered of, a run reads the constant itself: what is packed comes on top.
    gathered = {step.x for step in plan.steps if isinstance(step, Gather)}
    pieces = {
        key: np.ascontiguousarray(packed[key]) for key in sorted(packed)
        if (key[0] not in stored or _is_as_small(packed[key], stored[key[0]]))
        and (key[0] not in gathered or 2 * packed[key].nbytes <= constants[key[0]].nbytes)
    }  # fmt: skip
    _require_plain(constants)
    _require_plain(pieces)
    panels = find_panels(constants, pieces)
    arrays = {
        f"constant/{name}": stored[name].codes if name in stored else array
        for name, array in constants.items() if name not in panels
    }  # fmt: skip
    joined = _split_models(plan, arrays)
    body = _Body(
        VERSION, __version__, sys.byteorder, plan.inputs, plan.outputs, tuple(plan.tensors.values()),
        plan.layers, plan.notes, plan.model, plan.deciding,
        tuple(_Constant(n, a.dtype.name, a.shape, crc32(a)) for n, a in constants.items()),
        tuple(_Stored(name, entry.form) for name, entry in stored.items()),
        tuple(_Panels(name, entry.inputs, entry.bits) for name, entry in sorted(panels.items())),
        tuple(_Joined(name.removeprefix("constant/"), entry.pieces) for name, entry in joined.items()),
        tuple(_Packed(*key, a.dtype.name, a.shape, crc32(a)) for key, a in pieces.items()),
        tuple(_timing_entries(Timings() if timings is None else timings)),
    )  # fmt: skip
    content = {**encode(body), "steps": encode(plan.steps)}
    if plan.selftest is not None:
        content["selftest"] = encode(plan.selftest)
    text = _dumps(content)
    arrays |= {name: entry.own for name, entry in joined.items()}
    arrays |= {f"scale/{name}": entry.scale for name, entry in stored.items() if entry.scale is not None}
    arrays |= {f"zero/{name}": entry.zero for name, entry in stored.items() if entry.zero is not None}
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
    selftest = (
        decode(SelfTest, content.pop("selftest"), f"{where}.selftest") if "selftest" in content else None
    )
    body: _Body = decode(_Body, content, where)
    if not isinstance(steps, list):
        raise format_error(f"{where}.steps", steps, "a list")
    constants, packed, stored = _arrays(where, body, views)
    plan = Plan(
        steps=tuple(_step(entry, f"{where}.steps[{i}]") for i, entry in enumerate(steps)),
        tensors={tensor.name: tensor for tensor in body.tensors},
        constants=constants, inputs=body.inputs, outputs=body.outputs, layers=body.layers, notes=body.notes,
        model=body.model, deciding=body.deciding, stored=stored,
        selftest=selftest,
    )  # fmt: skip
    if len(plan.tensors) != len(body.tensors):
        raise format_error(f"{where}.tensors", "a name twice", "distinct names")
    try:
        plan.check()
        check_limits(plan, {entry.name: (entry.dtype, entry.shape) for entry in body.constants})
    except FileFormatError as error:
        raise error.at(where) from error
    machines: dict[str, dict[str, float]] = {}
    for entry in body.timings:
        machines.setdefault(entry.machine, {})[entry.name] = entry.seconds
    return PlanFile(plan, constants, packed, Timings(check_table(machines, f"{where}.timings")))


def _timing_entries(timings: Timings) -> Iterator[_Timed]:
    for machine, table in sorted(timings.machines.items()):
        for name, seconds in sorted(table.items()):
            yield _Timed(machine, name, seconds)


def is_plan(path: str | os.PathLike[str]) -> bool:
    """Return whether a file starts like a plan file; a damaged one may do so as well.

    Raises:
        FileAccessError: The file cannot be read.
    """
    with reading(path), Path(path).open("rb") as file:
        start = file.read(256)
    return start[8:].lstrip().startswith(b'{"__metadata__":{"' + _PLAN.encode())


def _content(where: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Parse the JSON of the metadata, after its checksum and version are verified."""
    if metadata.keys() != {_PLAN, _CHECKSUM}:
        raise format_error(where, f"metadata {', '.join(metadata)}", f"those of a plan file: {_PLAN}")
    text = metadata[_PLAN]
    if metadata[_CHECKSUM] != f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}":
        raise format_error(where, "a plan that does not match its checksum", "the plan that was written")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise format_error(where, f"a plan that is no JSON ({error})", "JSON") from error
    if not isinstance(content, dict):
        raise format_error(where, content, "a JSON object")
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
        raise format_error(f"{where}.kind", kind, f"one of {', '.join(KINDS)}")
    step: Step = decode(KINDS[kind], entry, where)
    return step


def _in_fewer_bits(plan: Plan, name: str, array: NDArray) -> Stored | None:
    """Return a compact form from which every bit of a float32 constant follows; None where there is none."""
    stored = plan.stored.get(name)
    if stored is not None and crc32(stored.widen(array.shape)) == crc32(array):
        return stored
    return compact_reals(array)


def _is_as_small(packed: NDArray, stored: Stored) -> bool:
    """Return whether what is packed has the bytes of the codes, but for outputs that fill up a panel."""
    return 8 * packed.nbytes <= 9 * stored.codes.nbytes


def _split_models(plan: Plan, arrays: Mapping[str, NDArray]) -> dict[str, Joined]:
    """Split the models of the plan whose weights stand in other arrays of the file."""
    parts = sorted({step.model for step in plan.steps if isinstance(step, FallbackSubgraph)} - {plan.model})
    models = [f"constant/{name}" for name in (*parts, plan.model) if name]
    other_arrays = {name: array for name, array in arrays.items() if name not in models}
    return join_models({name: arrays[name] for name in models}, other_arrays)


def _arrays(
    where: str, body: _Body, views: dict[str, container.Bytes]
) -> tuple[Verified[str], Verified[tuple[str, str]], dict[str, Stored]]:
    """Collect the constants, the packed arrays, and the constants in a compact form."""
    rest = dict(views)
    plain, stored = dict[str, tuple[NDArray, int]](), dict[str, tuple[OtherForm, tuple[int, ...], int]]()
    forms = {entry.constant: entry.form for entry in body.stored}
    pieces = {entry.constant: entry.pieces for entry in body.joined}
    panels = {entry.constant: (entry.inputs, entry.bits) for entry in body.panels}
    names = {entry.name for entry in body.constants}
    for field, other_names in (
        ("stored", forms.keys() - names),
        ("joined", pieces.keys() - (names - forms.keys())),
        ("panels", panels.keys() - (names - forms.keys() - pieces.keys())),
    ):
        if other_names:
            raise format_error(f"{where}.{field}", min(other_names), "names of constants")
    _check_joined(where, body, views)
    packed = {
        (entry.constant, entry.kernel): (
            _array(where, entry, f"packed/{entry.kernel}/{entry.constant}", rest), entry.crc32,
        )
        for entry in body.packed
    }  # fmt: skip
    for entry in body.constants:
        if entry.name in panels:
            codes = _panel_codes(where, entry, *panels[entry.name], packed)
            stored[entry.name] = codes, entry.shape, entry.crc32
        elif entry.name in pieces:
            rest.pop(f"constant/{entry.name}", None)
            model = views_of(where, entry.name, prod(entry.shape), pieces[entry.name], views)
            stored[entry.name] = model, entry.shape, entry.crc32
        elif form := forms.get(entry.name):
            stored[entry.name] = _compact_constant(where, entry, form, rest), entry.shape, entry.crc32
        else:
            plain[entry.name] = _array(where, entry, f"constant/{entry.name}", rest), entry.crc32
    if rest:
        raise format_error(where, f"arrays of no constant: {', '.join(rest)}", "none")
    compact = {name: constant for name, (constant, *_) in stored.items() if isinstance(constant, Stored)}
    return Verified(where, plain, stored), Verified(where, packed), compact


def _check_joined(where: str, body: _Body, views: Mapping[str, container.Bytes]) -> None:
    """Refuse pieces of anything but bytes, and more of them than a file of this size has."""
    joined = {entry.constant for entry in body.joined}
    whole = 0
    for entry in body.constants:
        if entry.name in joined:
            if (entry.dtype, len(entry.shape)) != ("uint8", 1):
                raise format_error(f"{where}: '{entry.name}'", f"{entry.dtype} {entry.shape}", "bytes")
            whole += entry.shape[0]
    if whole > (most := MOST * sum(view.size for view in views.values())):
        raise format_error(f"{where}.joined", f"{whole} bytes in all", f"at most {most}")


def _array(where: str, entry: _Constant | _Packed, name: str, rest: dict[str, container.Bytes]) -> NDArray:
    """Return a view of the bytes stored under `name`, and remove them from `rest`."""
    if entry.dtype not in _DTYPES or any(size < 0 for size in entry.shape):
        raise format_error(f"{where}: '{name}'", f"{entry.dtype} {entry.shape}", "a dtype and sizes")
    dtype = np.dtype(entry.dtype)
    return _bytes(where, name, prod(entry.shape) * dtype.itemsize, rest).view(dtype).reshape(entry.shape)


def _panel_codes(
    where: str, entry: _Constant, inputs: int, bits: int,
    packed: Mapping[tuple[str, str], tuple[NDArray, int]],
) -> PanelCodes:  # fmt: skip
    """Find the panels of a constant that the file holds in no other form."""
    form = form_of(inputs, bits)
    array, _ = packed.get((entry.name, form), (None, 0))
    if array is not None:
        codes = PanelCodes(inputs, bits, array.reshape(-1).view(np.uint8))
        if codes.fits(entry.dtype, entry.shape):
            return codes
    raise format_error(f"{where}: '{entry.name}'", f"panels {form}", "those of such a constant")


def _compact_constant(where: str, entry: _Constant, form: Form, rest: dict[str, container.Bytes]) -> Stored:
    """Read a constant in fewer bits, otherwise as `_array`."""
    named = f"{where}: '{entry.name}'"
    if entry.dtype != "float32":
        raise format_error(named, entry.dtype, "float32")
    form.check(named, entry.shape)
    codes, scale, zero = _bytes(where, f"constant/{entry.name}", form.nbytes, rest), None, None
    count = prod(form.scale)
    if form.scale:
        scale = _bytes(where, f"scale/{entry.name}", 4 * count, rest).view(np.float32).reshape(form.scale)
    if form.zero:
        zero = _bytes(where, f"zero/{entry.name}", 2 * count, rest).view(np.int16).reshape(form.scale)
    return Stored(form, codes, scale, zero)


def _bytes(where: str, name: str, size: int, rest: dict[str, container.Bytes]) -> NDArray[np.uint8]:
    data = rest.pop(name, None)
    if data is None or data.size != container.padded_size(size):
        size_text = "no bytes" if data is None else f"{data.size} bytes"
        raise format_error(f"{where}: '{name}'", size_text, f"{size} and their padding")
    return data[:size]


def _require_plain(arrays: Mapping[Any, NDArray]) -> None:
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES or not array.dtype.isnative:
            raise QuantValueError(f"array {name!r}", f"dtype {array.dtype}", " or ".join(_DTYPES), "cast it")


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
