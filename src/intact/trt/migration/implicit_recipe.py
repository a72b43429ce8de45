"""Reads what an implicit int8 engine was built from: a float model, and a scale for each tensor."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.calib import TrtCache
from intact.errors import FileFormatError, IntactError
from intact.graph import Source
from intact.limits import RECORD_BYTES
from intact.reading import read_bytes
from intact.spec import INT8, QuantSpec

_LINE = re.compile(r"(?P<name>.+?)\s*:\s*(?P<number>[-+.\deE]+)")
_WANT = "a calibration cache, or a range for each tensor: 'name: 1.5' in lines, or JSON"


@dataclass(frozen=True)
class PinnedWeight:
    """Holds a weight of the float model with the scales that a checkpoint has for it.

    Attributes:
        values: The weight as the layer reads it, float32.
        scales: Of each output channel, or one.
        axis: Of the output channels.
    """

    values: NDArray[np.float32]
    scales: NDArray[np.float32]
    axis: int | None


@dataclass(frozen=True)
class ImplicitRecipe:
    """Holds what an implicit int8 engine is built from.

    Attributes:
        model: The float model: a path, the bytes of a file, or a graph.
        cache: The scale of each tensor.
        kind: In words, for the page: "calibration cache", ...
        floats: Layers that were pinned to float.
        batches: Calibration batches that were seen; empty where there were none.
        weights: By layer, weights whose scales are known; those of others are found anew.
    """

    model: Source
    cache: TrtCache
    kind: str
    floats: tuple[str, ...] = ()
    batches: tuple[Mapping[str, NDArray], ...] = ()
    weights: Mapping[str, PinnedWeight] = field(default_factory=dict)


def read_ranges(path: str | os.PathLike[str]) -> tuple[TrtCache, str]:
    """Read scales from a file, and say of which kind it is.

    A calibration cache; or dynamic ranges as TensorRT's sampleINT8API reads them, one ``name: range`` a line;
    or JSON with a number, or (min, max), for each name. A range is that of `set_dynamic_range`: the larger
    magnitude counts.

    Raises:
        FileFormatError: It is neither; names the line or the tensor.
    """
    data = read_bytes(path)
    RECORD_BYTES.check(len(data), f"file '{path}'")
    if data.startswith(b"TRT-"):
        return TrtCache.load(path), "calibration cache"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"file '{path}'", "no text", _WANT, "pass such a file") from error
    try:
        ranges = _json_ranges(text) if text.lstrip().startswith("{") else _text_ranges(text)
        if not ranges:
            raise FileFormatError("ranges", "none", _WANT, "pass such a file")
        scales = {name: _scale(name, amax) for name, amax in ranges.items()}
        return TrtCache(scales), "dynamic ranges"
    except IntactError as error:
        raise error.at(f"file '{path}'") from error


def _text_ranges(text: str) -> dict[str, float]:
    ranges = dict[str, float]()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip())
        try:
            if match is None:
                raise ValueError
            name, amax = match["name"], float(match["number"])
        except ValueError:
            raise FileFormatError(f"line {number}", f"{line!r:.60}", _WANT, "correct this line") from None
        if name in ranges:
            raise FileFormatError(
                f"line {number}", f"'{name}' again", "one range for each tensor", "remove one"
            )
        ranges[name] = amax
    return ranges


def _json_ranges(text: str) -> dict[str, float]:
    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        twice = next((name for name in names if names.count(name) > 1), None) if len(names) < 10_000 else None
        if twice is not None:
            raise FileFormatError("JSON", f"'{twice}' again", "one range for each tensor", "remove one")
        return dict(pairs)

    try:
        content = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        if isinstance(error, IntactError):
            raise
        raise FileFormatError("JSON", f"'{error!s:.80}'", _WANT, "correct the file") from error
    ranges = dict[str, float]()
    for name, value in content.items():
        ends = value if isinstance(value, list) else [value]
        if not 1 <= len(ends) <= 2 or not all(
            isinstance(v, int | float) and not isinstance(v, bool) for v in ends
        ):
            raise FileFormatError(
                f"'{name}'", f"{value!r:.60}", "a number, or [min, max]", "correct its range"
            )
        ranges[name] = max(map(abs, map(float, ends)))
    return ranges


def _scale(name: str, amax: float) -> np.float32:
    if not math.isfinite(amax) or amax < 0:
        raise FileFormatError(f"range of '{name}'", str(amax), "a finite number of 0 or more", "correct it")
    return (
        np.float32(0)
        if amax == 0
        else np.float32(numerics.scale_from_amax(np.float32(amax), QuantSpec(INT8)))
    )
