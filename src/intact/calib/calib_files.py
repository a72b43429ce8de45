"""Reads and writes `.calib` files: arrays as safetensors, with JSON that describes them.

The safetensors metadata has one entry, "intact.calib", a JSON object:

    {"version": 1, "sha256": ..., "body": {
        "tensors": [{"name": "conv1.input", "kind": "histogram", "axis": null}, ...],
        "provenance": [{"tool": "intact 0.1.0", "source": ..., ...}, ...]}}

Array `field` of tensor `name` is stored as "name/field". The checksum covers the body (as canonical
JSON) and every array with its name, dtype and shape.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from intact.atomic import replacing
from intact.calib.histogram import Histogram
from intact.calib.range import Range
from intact.checksums import digest_of
from intact.errors import CalibrationError, FileFormatError
from intact.reading import reading

VERSION = 1
_KEY = "intact.calib"
_KINDS: dict[str, type[Histogram] | type[Range]] = {"histogram": Histogram, "range": Range}
_FIELDS = {
    "histogram": ("negative", "positive", "exponent", "min", "max", "count", "nonfinite"),
    "range": ("min", "max", "count", "nonfinite"),
}

Stats = Histogram | Range
Records = list[dict[str, Any]]


def write(path: str | os.PathLike[str], stats: Mapping[str, Stats], provenance: Records) -> None:
    """Write a `.calib` file, whole or not at all.

    Args:
        path: Of the file.
        stats: Histograms and ranges by name of the tensor.
        provenance: Records of JSON values.
    Raises:
        FileAccessError: The file cannot be written.
    """
    body: dict[str, Any] = {"tensors": [], "provenance": provenance}
    arrays: dict[str, NDArray] = {}
    for name, statistic in stats.items():
        kind = "histogram" if isinstance(statistic, Histogram) else "range"
        body["tensors"].append({"name": name, "kind": kind, "axis": statistic.axis})
        arrays |= {f"{name}/{field}": np.asarray(a, order="C") for field, a in statistic.to_arrays().items()}
    head = {"version": VERSION, "sha256": digest_of(body, arrays), "body": body}
    with replacing(path) as new:
        new.write(save(arrays, {_KEY: json.dumps(head, sort_keys=True)}))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Stats], Records]:
    """Return the statistics by name, and the provenance, of a `.calib` file.

    Raises:
        FileFormatError: The file is damaged, of another kind or of another version; names the file, and
            the tensor if it is one that is at fault.
        FileAccessError: The file cannot be read.
    """
    file = f"file '{os.fspath(path)}'"
    head, arrays = _open_calib(path, file)
    if head.get("version") != VERSION:
        raise FileFormatError(
            file,
            f"version {head.get('version')!r} of the .calib format",
            f"version {VERSION}",
            "read it with the version of INTact that wrote it, or collect again",
        )
    body = head.get("body")
    if not isinstance(body, dict) or head.get("sha256") != digest_of(body, arrays):
        raise _format_error(file, "content that does not match its checksum", "the content that was written")
    stats = _statistics(file, body.get("tensors"), arrays)
    provenance = body.get("provenance")
    if not isinstance(provenance, list) or not all(isinstance(r, dict) for r in provenance):
        raise _format_error(file, f"provenance {provenance!r:.60}", "a list of records")
    return stats, provenance


def _open_calib(path: str | os.PathLike[str], file: str) -> tuple[dict[str, Any], dict[str, NDArray]]:
    with reading(path):  # a file that is not there, or not ours to read, is not a damaged one
        Path(path).open("rb").close()
    try:
        with safe_open(os.fspath(path), framework="numpy") as content:
            metadata = content.metadata() or {}
            arrays = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _format_error(file, f"no readable safetensors ({error})", "a .calib file") from error
    if _KEY not in metadata:
        raise _format_error(file, "safetensors without calibration data", f"metadata with the entry '{_KEY}'")
    try:
        head = json.loads(metadata[_KEY])
    except (ValueError, RecursionError) as error:
        raise _format_error(file, f"metadata that is no JSON ({error})", "JSON") from error
    if not isinstance(head, dict):
        raise _format_error(file, f"metadata {head!r:.60}", "a JSON object")
    return head, arrays


def _statistics(file: str, index: Any, arrays: dict[str, NDArray]) -> dict[str, Stats]:
    if not isinstance(index, list):
        raise _format_error(file, f"tensors {index!r:.60}", "a list")
    stats: dict[str, Stats] = {}
    rest = dict(arrays)
    for entry in index:
        name, kind, axis = _entry(file, entry)
        if name in stats:
            raise _format_error(file, f"tensor '{name}' twice", "distinct names")
        mine = {f: rest.pop(f"{name}/{f}") for f in _FIELDS[kind] if f"{name}/{f}" in rest}
        try:
            stats[name] = _KINDS[kind].from_arrays(mine, axis)
        except CalibrationError as error:
            where = f"{file}: tensor '{name}': {error.where}"
            raise FileFormatError(where, error.got, error.want, error.fix) from error
    if rest:
        raise _format_error(file, f"arrays of no tensor: {', '.join(sorted(rest)):.60}", "none")
    return stats


def _entry(file: str, entry: Any) -> tuple[str, str, Any]:
    """Return (name, kind, axis) of one line of the index, checked."""
    fields = entry if isinstance(entry, dict) else {}
    name, kind, axis = fields.get("name"), fields.get("kind"), fields.get("axis")
    if isinstance(axis, list) and kind == "range" and all(_is_int(a) for a in axis):
        axis = tuple(axis)
    elif axis is not None and not _is_int(axis):
        kind = None
    if not isinstance(name, str) or not isinstance(kind, str) or kind not in _FIELDS:
        raise _format_error(file, f"index entry {entry!r:.80}", "a name, a kind and an axis")
    return name, kind, axis


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _format_error(file: str, got: str, want: str) -> FileFormatError:
    return FileFormatError(file, got, want, "restore the file from its source, or collect again")
