"""Reads and writes TensorRT's calibration cache, the text file of its calibrators.

    TRT-8601-EntropyCalibration2
    images: 3c010a14
    /model.0/conv/Conv_output_0: 3d9c2f1e

The first line names a TensorRT version and an algorithm. Every other line is a tensor's name, ": " and the
eight hexadecimal digits of a float32, its most significant byte first: the *scale* of a symmetric int8
tensor, dynamic range / 127. TensorRT documents none of this; it is what its files hold and what ONNX
Runtime and ModelOpt read. TensorRT itself writes 0 for a tensor that was zero throughout.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from intact.atomic import replacing
from intact.calib.calibration import Calibration
from intact.calib.range import Range
from intact.errors import CalibrationError, FileFormatError, IntactError
from intact.reading import read_bytes
from intact.spec import INT8

ALGORITHMS = ("EntropyCalibration2", "MinMaxCalibration", "EntropyCalibration")
"""Algorithm names behind the version in a cache's header.

TensorRT recommended the first, and DLA requires it.
"""

DEFAULT_VERSION = "8601"
"""TensorRT 8.6.1, which users of old devices still run."""

# Some tools write "8XXX" for the version.
_HEADER = re.compile(r"TRT-([0-9A-Za-z]+)-(\w+)")
_LARGEST = float(np.finfo(np.float32).max)
_DIGITS = re.compile(r"[0-9a-fA-F]{1,8}")
_LINE_FIX = "restore the cache from its source, or correct this line"


@dataclass(frozen=True)
class TrtCache:
    """Holds the content of a TensorRT calibration cache; values that no file could hold are refused.

    Attributes:
        scales: Scale of each tensor by its name, in the order of the file; finite, >= 0. 0 means that the
            tensor was zero throughout.
        algorithm: One of `ALGORITHMS`.
        version: TensorRT's version as the file spells it: "8601", "100300".

    Example:
        >>> cache = TrtCache.parse("TRT-8601-EntropyCalibration2\\nimages: 3c010204\\n")
        >>> float(cache.scales["images"]) == float(np.float32(1 / 127))
        True
        >>> print(cache.to_text(), end="")
        TRT-8601-EntropyCalibration2
        images: 3c010204
    """

    scales: Mapping[str, np.float32] = field(default_factory=dict)
    algorithm: str = ALGORITHMS[0]
    version: str = DEFAULT_VERSION

    def __post_init__(self) -> None:
        _parse_header(self._header)
        for name, scale in self.scales.items():
            _check_entry(name, np.float32(scale))

    @property
    def _header(self) -> str:
        return f"TRT-{self.version}-{self.algorithm}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the cache that `text` holds.

        Raises:
            FileFormatError: A line is not as described above, or a name stands twice; names the line.
        """
        # Not splitlines: names may hold any other character that Unicode calls the end of a line.
        first, *rest = (line.removesuffix("\r") for line in text.split("\n"))
        lines: dict[str, int] = {}
        scales: dict[str, np.float32] = {}
        number = 1
        try:
            version, algorithm = _parse_header(first)
            for number, line in enumerate(rest, 2):
                if not line.strip():
                    continue
                name, scale = _parse_line(line)
                if name in lines:
                    got = f"'{name}' again, after line {lines[name]}"
                    raise CalibrationError("name", got, "one line per tensor", _LINE_FIX)
                lines[name], scales[name] = number, scale
        except CalibrationError as error:
            where = f"line {number}: {error.where}"
            raise FileFormatError(where, error.got, error.want, error.fix) from error
        return cls(scales, algorithm, version)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the cache in the file at `path`.

        Raises:
            FileFormatError: As for `parse`, or the file is no text; names the file.
            FileAccessError: The file cannot be read.
        """
        data = read_bytes(path)
        try:
            return cls.parse(_decode(data))
        except IntactError as error:
            raise error.at(f"file '{os.fspath(path)}'") from error

    def to_text(self) -> str:
        """Return the file that TensorRT would read."""
        lines = (f"{name}: {_bits(scale):08x}\n" for name, scale in self.scales.items())
        return f"{self._header}\n{''.join(lines)}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all."""
        with replacing(path) as new:
            new.write(self.to_text().encode())

    def to_calibration(self) -> Calibration:
        """Return every tensor as the `Range` [-127 scale, 127 scale], in float32.

        The scale of such a range is the cache's, or its neighbour in float32: dividing by 127 does not
        reach every number.
        """
        stats: dict[str, Range] = {}
        for name, scale in self.scales.items():
            amax = np.float32(scale) * np.float32(INT8.qmax)
            stats[name] = Range()
            stats[name].collect(np.array([-amax, amax]))
        calibration = Calibration(stats)
        calibration.record(source=f"TensorRT calibration cache, {self._header}")
        return calibration


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileFormatError(
            f"line {line}", "bytes that are no text in UTF-8", "a text file", "check that this is a cache"
        ) from error


def _parse_header(line: str) -> tuple[str, str]:
    match = _HEADER.fullmatch(line.rstrip())
    if match is None:
        raise CalibrationError(
            "header", f"{line!r:.60}", "TRT-<version>-<algorithm>", "check that this is a calibration cache"
        )
    version, algorithm = match.groups()
    if algorithm not in ALGORITHMS:
        raise CalibrationError(
            "algorithm", repr(algorithm), f"one of {', '.join(ALGORITHMS)}",
            "name one of these in the first line: the lines below mean the same for all of them",
        )  # fmt: skip
    return version, algorithm


def _parse_line(line: str) -> tuple[str, np.float32]:
    name, colon, digits = line.rpartition(": ")
    if not colon or not name or not _DIGITS.fullmatch(digits.strip()):
        want = "a name, ': ' and up to eight hexadecimal digits"
        raise CalibrationError("entry", f"{line!r:.80}", want, _LINE_FIX)
    scale = np.uint32(int(digits, 16)).view(np.float32)
    _check_entry(name, scale)
    return name, scale


def _check_entry(name: str, scale: np.float32) -> None:
    if not name or "\n" in name:
        raise CalibrationError(
            "name", repr(name), "a name of one line", "rename the tensor: the file has one line per tensor"
        )
    if not 0 <= float(scale) * INT8.qmax <= _LARGEST or np.signbit(scale):
        raise CalibrationError(
            f"scale of '{name}'", f"{scale} ({_bits(scale):08x})", "a number >= 0 with a finite range",
            "calibrate this tensor again",
        )  # fmt: skip


def _bits(scale: np.float32) -> int:
    return int(np.float32(scale).view(np.uint32))
