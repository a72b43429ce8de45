"""The two values that describe a quantized tensor: its number format and its granularity.

`Format` is a grid of representable numbers (int8, uint4, fp8e4m3, ...); `QuantSpec` says how a tensor
is laid onto it: granularity, symmetry, narrow range. Granularity and bit width are values, never
class names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from operator import index

import ml_dtypes
import numpy as np

from intact.errors import QuantValueError
from intact.processes import cached_property

MIN_BITS, MAX_BITS = 2, 16

_FLOAT_FORMATS: dict[str, tuple[int, float, type]] = {
    "fp8e4m3": (8, 448.0, ml_dtypes.float8_e4m3fn),
    "fp8e5m2": (8, 57344.0, ml_dtypes.float8_e5m2),
    "fp4e2m1": (4, 6.0, ml_dtypes.float4_e2m1fn),
}
_ALIASES = {"fp8": "fp8e4m3", "fp4": "fp4e2m1"}
_INT_NAME = re.compile(r"(u?)int([1-9][0-9]?)")


def is_whole(value: object) -> bool:
    """Return whether `value` is an integer of Python or NumPy. True and False are none here."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_bool(name: str, value: object) -> bool:
    """Return `value` as a bool; only True and False are accepted.

    Raises:
        QuantValueError: It is none: "maybe", 1 and None would all be taken for one otherwise.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise QuantValueError(name, f"{value!r:.60}", "True or False", "choose one of the two")


def check_block_size(value: object) -> int | None:
    """Return `value` as an int; None for None.

    Raises:
        QuantValueError: It is no positive integer, or one that no axis is as long as.
    """
    if value is None:
        return None
    if is_whole(value) and 0 < (size := index(value)) < 2**31:  # type: ignore[arg-type]
        return size
    raise QuantValueError("block_size", f"{value!r:.60}", "a positive integer, or None", "32 is usual")


@dataclass(frozen=True)
class Format:
    """Describes a grid of representable numbers; get one with `Format.parse("int8")`.

    Attributes:
        name: What files, reports and errors show: ``intN``, ``uintN`` (N = 2..16), ``fp8e4m3``,
            ``fp8e5m2`` or ``fp4e2m1``.
        bits: Width of one code.
        signed: Whether the grid has negative numbers.
        qmin, qmax: The ends of the grid. Integers for integer grids, floats for float grids.
        is_float: True for fp8 and fp4.

    Rule N1.
    """

    name: str
    bits: int
    signed: bool
    qmin: float
    qmax: float
    is_float: bool = False

    @classmethod
    def parse(cls, name: str | Format) -> Format:
        """Return the format called `name`; a `Format` is returned as it is.

        Raises:
            QuantValueError: There is no such format.
        """
        if isinstance(name, Format):
            return name
        key = _ALIASES.get(name, name) if isinstance(name, str) else ""
        if key in _FLOAT_FORMATS:
            bits, largest, _ = _FLOAT_FORMATS[key]
            return cls(key, bits, True, -largest, largest, is_float=True)
        match = _INT_NAME.fullmatch(key)
        if match and MIN_BITS <= int(match[2]) <= MAX_BITS:
            return cls.integer(int(match[2]), signed=not match[1])
        raise QuantValueError(
            "format",
            repr(name),
            "intN or uintN with N = 2..16, fp8e4m3, fp8e5m2 or fp4e2m1",
            "choose one of these names, for example 'int8'",
        )

    @classmethod
    def integer(cls, bits: int, *, signed: bool = True) -> Format:
        """Return the integer grid of `bits` bits: int8 is [-128, 127], uint8 is [0, 255].

        Raises:
            QuantValueError: `bits` is not in 2..16.
        """
        if not is_whole(bits) or not MIN_BITS <= bits <= MAX_BITS:
            raise QuantValueError("bits", repr(bits), "2..16", "choose a width in that range")
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return cls(f"{'' if signed else 'u'}int{bits}", bits, signed, low, high)

    @property
    def storage_dtype(self) -> np.dtype[np.generic]:
        """The smallest NumPy (or ml_dtypes) dtype that holds one code."""
        stored: np.dtype[np.generic]
        if self.is_float:
            stored = np.dtype(_FLOAT_FORMATS[self.name][2])
        elif self.bits == 4:
            stored = np.dtype(ml_dtypes.int4 if self.signed else ml_dtypes.uint4)
        else:
            stored = np.dtype(f"{'int' if self.signed else 'uint'}{8 if self.bits <= 8 else 16}")
        return stored

    def __str__(self) -> str:
        return self.name


INT8 = Format.integer(8)
UINT8 = Format.integer(8, signed=False)
INT16 = Format.integer(16)
INT4 = Format.integer(4)
UINT4 = Format.integer(4, signed=False)
FP8E4M3 = Format.parse("fp8e4m3")
FP8E5M2 = Format.parse("fp8e5m2")
FP4E2M1 = Format.parse("fp4e2m1")


@dataclass(frozen=True)
class QuantSpec:
    """Describes how a tensor is quantized: format, granularity and symmetry.

    Attributes:
        format: The grid, or its name.
        axis: None for one scale per tensor; an axis, or several, for one scale per index of them
            (per-channel). With `block_size`, the one axis that is cut into blocks.
        block_size: Number of neighbouring elements along `axis` that share a scale; every other
            axis keeps a scale per index. The last block may be shorter.
        symmetric: True: the zero point is 0 and the range is [-amax, amax] (or [0, amax] for an
            unsigned grid). False: the range is [rmin, rmax], widened to contain 0.
        narrow: Drop the extra negative code: int8 becomes [-127, 127].

    Scales and zero points of a tensor of shape S have the *granule shape*: () per-tensor; the sizes
    of the kept axes, in ascending order of axis, per-channel; S with S[axis] replaced by
    ceil(S[axis] / block_size) per-block. `numerics.granule_shape` computes it.

    Rule N1.
    """

    format: Format = INT8
    axis: int | tuple[int, ...] | None = None
    block_size: int | None = None
    symmetric: bool = True
    narrow: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", Format.parse(self.format))
        object.__setattr__(self, "axis", _canonical_axis(self.axis))
        for name in ("symmetric", "narrow"):
            object.__setattr__(self, name, check_bool(name, getattr(self, name)))
        block = check_block_size(self.block_size)
        object.__setattr__(self, "block_size", block)
        if block is not None and not isinstance(self.axis, int):
            raise QuantValueError(
                "block_size",
                f"{self.block_size} with axis {self.axis}",
                "a positive size and exactly one axis",
                "give the axis that is cut into blocks, for example axis=-1, block_size=32",
            )
        if self.format.is_float and not self.symmetric:
            raise QuantValueError(
                "symmetric",
                f"False with format {self.format}",
                "True: a float grid has no zero point",
                "use symmetric=True, or an integer format",
            )

    @cached_property
    def qmin(self) -> float:
        """Smallest code of the grid, after `narrow`. An integer for integer formats."""
        drop = self.narrow and self.format.signed and not self.format.is_float
        return self.format.qmin + drop

    @property
    def qmax(self) -> float:
        """Largest code of the grid. An integer for integer formats."""
        return self.format.qmax

    @property
    def axes(self) -> tuple[int, ...]:
        """`axis` as a tuple: () per-tensor."""
        if self.axis is None:
            return ()
        return (self.axis,) if isinstance(self.axis, int) else self.axis

    def with_(self, **changes: object) -> QuantSpec:
        """Return a copy with some attributes changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def __str__(self) -> str:
        words = [self.format.name + ("n" if self.narrow else "")]
        if self.block_size is not None:
            words.append(f"per-block(axis={self.axis}, block_size={self.block_size})")
        elif self.axis is not None:
            words.append(f"per-channel(axis={self.axis})")
        else:
            words.append("per-tensor")
        if not self.symmetric:
            words.append("asymmetric")
        return " ".join(words)


def _canonical_axis(axis: object) -> int | tuple[int, ...] | None:
    """Return one spelling for each meaning of `axis`: (1, 0) becomes (0, 1), (2,) becomes 2, () becomes
    None.
    """
    if axis is None:
        return None
    entries = axis if isinstance(axis, (tuple, list)) else (axis,)
    if not all(map(is_whole, entries)):
        raise QuantValueError(
            "axis",
            f"{axis!r:.60}",
            "None, an integer or a tuple of integers",
            "count axes from 0, or from -1 at the end",
        )
    axes = sorted(map(index, entries))
    return None if not axes else axes[0] if len(axes) == 1 else tuple(axes)
