"""A quantizer of ModelOpt: its settings, and the codes that it gives the rows of a matrix."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError, UnsupportedError
from intact.graph import LARGEST_CODES, BlockScales

Reals = NDArray[np.float32]

_TYPES = {
    8: "int8", 4: "int4", (4, 3): "float8_e4m3fn", (2, 1): "float4_e2m1fn", (3, 2): "float6_e3m2fn",
    (2, 3): "float6_e2m3fn",
}  # fmt: skip
"""The type of the codes by `num_bits`, by NumPy's name."""

_SCALES = {None: "float32", (8, 0): "float8_e8m0fnu", (4, 3): "float8_e4m3fn"}
"""The type of the scales of blocks by `scale_bits`."""

_HARMLESS = {"pass_through_bwd", "trt_high_precision_dtype"}
"""Fields of training, and of types that a file has already."""

_AS_DEFAULT: dict[str, Any] = {
    "fake_quant": True, "unsigned": False, "narrow_range": False, "learn_amax": False, "calibrator": "max",
}  # fmt: skip
"""Fields that must be what they are by default."""

_FIELDS = {"enable", "num_bits", "axis", "block_sizes", "type", "bias", "rotate", *_AS_DEFAULT, *_HARMLESS}
_DIGITS = re.compile(r"-?\d+")
_FP8_MOST = np.float32(448)


def refuse(
    where: str, got: str, fix: str = "leave it out, or choose another configuration"
) -> UnsupportedError:
    """Return the error of a field that asks for what INTact cannot do."""
    return UnsupportedError(f"ModelOpt: {where}", got, "what INTact quantizes with", fix)


@dataclass(frozen=True)
class Quantizer:
    """Describes the grid of one tensor.

    Attributes:
        dtype: Of the codes, by NumPy's name.
        axis: The axis with a scale for each index; None: one scale, or blocks.
        blocks: Axis, counted from the end, and elements that share a scale along it; None: all.
        scale_type: Of the scales of blocks, by NumPy's name.
        is_dynamic: Ranges are found while the model runs.
        bias_axes: Axes over which the mean is taken that is subtracted first; (): none is.
        bias_method: "mean" or "max_min".
    """

    dtype: str
    axis: int | None = None
    blocks: Mapping[int, int | None] = field(default_factory=dict)
    scale_type: str = "float32"
    is_dynamic: bool = False
    bias_axes: tuple[int, ...] = ()
    bias_method: str = "mean"

    @property
    def largest(self) -> float:
        """The code that the largest magnitude gets."""
        return LARGEST_CODES[self.dtype]

    @property
    def needs_range(self) -> bool:
        """True where activations need data: their range is stored, or that of their scales is."""
        return bool(self.bias_axes) or self.scale_type == "float8_e4m3fn" or not self.is_dynamic

    def factor(self, most: float) -> float:
        """Return by what scales of FP8 are multiplied, where the largest magnitude is `most`."""
        return float(np.float32(most) / (np.float32(self.largest) * _FP8_MOST)) if most > 0 else 1.0

    def run_scales(self, most: float | None) -> BlockScales:
        """Return the description of scales that a run computes."""
        block = (self.blocks[-1] or 0) if self.blocks else None
        factor = None if self.scale_type != "float8_e4m3fn" or most is None else self.factor(most)
        return BlockScales(self.dtype, block, self.scale_type, factor)


@dataclass(frozen=True)
class QuantizerChain:
    """Holds quantizers of one tensor, each behind the one before.

    Attributes:
        quantizers: None where the tensor stays in float.
        rotates: Whether a Hadamard matrix multiplies the tensor first.
    """

    quantizers: tuple[Quantizer, ...] = ()
    rotates: bool = False

    def __bool__(self) -> bool:
        return bool(self.quantizers) or self.rotates


OFF = QuantizerChain()
"""A tensor that stays in float."""


def read_chain(where: str, value: Any) -> QuantizerChain:
    """Return what a configuration says of one quantizer.

    Args:
        where: What errors call it.
        value: A dict of fields, or several for quantizers behind one another; also after a way through JSON.
    Raises:
        UnsupportedError: A field asks for what INTact cannot do; names it.
        QuantValueError: There is no such field, or a value is none of it.
    """
    if isinstance(value, list | tuple):
        chains = [read_chain(where, part) for part in value]
        if any(chain.rotates for chain in chains):
            raise refuse(f"{where}: rotate", "rotation between quantizers")
        return QuantizerChain(tuple(q for chain in chains for q in chain.quantizers)) or OFF
    if not isinstance(value, Mapping):
        raise QuantValueError(where, f"{value!r:.60}", "a dict", "correct the configuration")
    if set(value) == {"*"}:
        return read_chain(where, value["*"])
    if extra := sorted(map(str, value.keys() - _FIELDS)):
        raise QuantValueError(
            f"{where}: {extra[0]}", "a field", f"one of {', '.join(sorted(_FIELDS))}", "correct it"
        )
    for name, default in _AS_DEFAULT.items():
        if value.get(name, default) != default:
            raise refuse(f"{where}: {name}", f"{name}={value[name]!r:.40}")
    rotates = _flag(where, value, "rotate", False)
    if not _flag(where, value, "enable", True):
        return QuantizerChain((), True) if rotates else OFF
    return QuantizerChain((_quantizer(where, value),), rotates)


def _flag(where: str, value: Mapping[str, Any], name: str, default: bool) -> bool:
    flag = value.get(name, default)
    if not isinstance(flag, bool):
        raise QuantValueError(f"{where}: {name}", f"{flag!r:.40}", "true or false", "correct it")
    return flag


def _quantizer(where: str, value: Mapping[str, Any]) -> Quantizer:
    bits = value.get("num_bits", 8)
    bits = tuple(bits) if isinstance(bits, list) else bits
    if isinstance(bits, bool) or not isinstance(bits, int | tuple) or bits not in _TYPES:
        raise refuse(f"{where}: num_bits", f"num_bits={bits!r:.40}")
    dtype, axis = _TYPES[bits], value.get("axis")
    axis = axis[0] if isinstance(axis, list | tuple) and len(axis) == 1 else axis
    if axis not in (None, 0):
        raise refuse(f"{where}: axis", f"scales along axis {axis!r:.40}; 0 is the output channels")
    kind = _kind(f"{where}: type", value)
    blocks, scale_type, block_kind = _blocks(where, value.get("block_sizes"))
    if blocks and axis is not None:
        raise QuantValueError(f"{where}: axis", f"{axis} beside block_sizes", "one of the two", "choose one")
    if dtype.startswith(("float4", "float6")) and not blocks:
        raise refuse(f"{where}: num_bits", f"num_bits={bits} without blocks")
    if scale_type == "float8_e4m3fn" and dtype != "float4_e2m1fn":
        raise refuse(f"{where}: scale_bits", f"scales of fp8 with num_bits={bits}")
    bias_axes, bias_method = _bias(where, value.get("bias"))
    return Quantizer(
        dtype, axis, blocks, scale_type, kind == "dynamic" or block_kind == "dynamic", bias_axes, bias_method
    )


def _kind(where: str, value: Mapping[str, Any]) -> str:
    kind = value.get("type", "static")
    if kind not in ("static", "dynamic"):
        raise QuantValueError(where, f"{kind!r:.40}", "static or dynamic", "correct it")
    return str(kind)


def _split_axes(where: str, value: object, named: set[str]) -> tuple[dict[int, Any], dict[str, Any]]:
    """Split a dict into what it says of axes, and of names."""
    if not isinstance(value, Mapping):
        raise QuantValueError(where, f"{value!r:.40}", "a dict", "correct the configuration")
    axes = {int(key): size for key, size in value.items() if _DIGITS.fullmatch(str(key))}
    rest = {str(key): part for key, part in value.items() if not _DIGITS.fullmatch(str(key))}
    if extra := sorted(rest.keys() - named):
        raise QuantValueError(where, repr(extra[0]), f"axes, {', '.join(sorted(named))}", "correct it")
    return axes, rest


def _blocks(where: str, sizes: object) -> tuple[dict[int, int | None], str, str]:
    """Return sizes of blocks by axis, the type of their scales, and whether a run finds these."""
    if not sizes:
        return {}, "float32", "static"
    place = f"{where}: block_sizes"
    axes, named = _split_axes(place, sizes, {"type", "scale_bits", "scale_block_sizes"})
    if named.get("scale_block_sizes"):
        raise refuse(place, "scales that are quantized in blocks themselves")
    bits = named.get("scale_bits")
    bits = tuple(bits) if isinstance(bits, list) else bits
    if bits not in _SCALES:
        raise refuse(f"{place}: scale_bits", f"{bits!r:.40}")
    if not set(axes) <= {-1, -2} or -1 not in axes:
        raise refuse(place, f"blocks along {sorted(axes)}; INTact has those along the last two axes")
    for size in axes.values():
        if size is not None and (
            not isinstance(size, int) or isinstance(size, bool) or not 2 <= size <= 2**16
        ):
            raise QuantValueError(place, f"{size!r:.40}", "2 to 65536 elements", "correct it")
    if len(axes) > 1 and bits is not None:
        raise refuse(place, "scales of few bits for blocks along two axes")
    return axes, _SCALES[bits], _kind(f"{place}: type", named)


def _bias(where: str, value: object) -> tuple[tuple[int, ...], str]:
    if value is None:
        return (), "mean"
    place = f"{where}: bias"
    axes, named = _split_axes(place, value, {"type", "method"})
    if _kind(f"{place}: type", named) == "dynamic":
        raise refuse(place, "means that are found while the model runs")
    method = named.get("method", "mean")
    if method not in ("mean", "max_min"):
        raise QuantValueError(f"{place}: method", f"{method!r:.40}", "mean or max_min", "correct it")
    if not axes or not set(axes) <= {-1, -2, -3, -4} or any(part is not None for part in axes.values()):
        raise refuse(place, f"means over axes {sorted(axes)}")
    return tuple(sorted(axes)), method


@dataclass(frozen=True)
class MatrixCodes:
    """Holds the codes of a matrix [N, K].

    Attributes:
        codes: Numbers of the grid, float32 [N, K].
        scales: float32 [N, blocks]; [N] of rows; [] of the matrix.
        block: Elements along K that share a scale; None: rows or the matrix do.
        factor: By what scales of FP8 are multiplied; None: there are none.
    """

    codes: Reals
    scales: Reals
    block: int | None
    factor: float | None = None

    def floats(self) -> Reals:
        """Return what the codes stand for, float32 [N, K]."""
        scales = self.scales if self.factor is None else self.scales * np.float32(self.factor)
        if self.block is None:
            return np.asarray(self.codes * (scales[:, None] if scales.ndim else scales), np.float32)
        columns = np.arange(self.codes.shape[1]) // self.block
        return np.asarray(self.codes * scales[:, columns], np.float32)


def quantize_rows(
    rows: Reals, quantizer: Quantizer, clip: float | Reals = 1.0, most: float | None = None
) -> MatrixCodes:
    """Round a matrix to the grid of a quantizer.

    Args:
        rows: float32 [N, K].
        quantizer: Its blocks lie along K, and along N.
        clip: What ranges are multiplied by: one number, or one for each block, [N, blocks]; of scales of FP8
            the range of these.
        most: The largest magnitude of all such matrices; None: of this one.
    """
    largest = np.float32(quantizer.largest)
    if not quantizer.blocks:
        magnitudes = np.abs(rows).max(1, initial=0) if quantizer.axis == 0 else np.abs(rows).max(initial=0)
        scales = _positive(np.asarray(magnitudes if most is None else most, np.float32) * clip / largest)
        steps = rows / (scales[:, None] if scales.ndim else scales)
        return MatrixCodes(round_codes(steps, quantizer.dtype), np.asarray(scales, np.float32), None)
    width = quantizer.blocks[-1] or rows.shape[1]
    magnitudes = _block_magnitudes(rows, width, quantizer.blocks.get(-2, 1) or rows.shape[0])
    factor = None
    if quantizer.scale_type == "float8_e4m3fn":
        top = float(np.abs(rows).max(initial=0)) if most is None else most
        factor = quantizer.factor(top * float(np.asarray(clip).max()))
        wanted = np.minimum(magnitudes / largest / np.float32(factor), _FP8_MOST)
        scales = _positive(wanted.astype(ml_dtypes.float8_e4m3fn).astype(np.float32))
        total = scales * np.float32(factor)
    elif quantizer.scale_type == "float8_e8m0fnu":
        scales = total = power_of_two_above(magnitudes * np.float32(clip) / largest)
    else:
        scales = total = _positive(magnitudes * np.asarray(clip, np.float32) / largest)
    columns = np.arange(rows.shape[1]) // width
    codes = round_codes(rows / total[:, columns], quantizer.dtype)
    return MatrixCodes(codes, scales, width, factor)


def _block_magnitudes(rows: Reals, width: int, height: int) -> Reals:
    """Return the largest magnitude of each block, for every row, [N, blocks]."""
    columns = np.maximum.reduceat(np.abs(rows), np.arange(0, rows.shape[1], width), axis=1)
    if height == 1:
        return np.asarray(columns, np.float32)
    tiles = np.maximum.reduceat(columns, np.arange(0, len(rows), height), axis=0)
    return np.asarray(np.repeat(tiles, height, axis=0)[: len(rows)], np.float32)


def _positive(scales: NDArray) -> Reals:
    """Return scales, 1 for those of blocks of zeros."""
    return np.asarray(np.where(scales > 0, scales, np.float32(1)), np.float32)


def power_of_two_above(values: Reals) -> Reals:
    """Return the least powers of two that are not below `values`, 2 ** -127 at least; 1 for 0."""
    fraction, exponent = np.frexp(values)
    exponent = np.clip(np.where(fraction == 0.5, exponent - 1, exponent), -127, 127)
    return np.asarray(np.where(values > 0, np.ldexp(np.float32(1), exponent), np.float32(1)), np.float32)


def round_codes(steps: NDArray, dtype: str) -> Reals:
    """Round to the nearest numbers of a grid, ties to even, clamped; float32 of the same shape."""
    most = LARGEST_CODES[dtype]
    if dtype.startswith("int"):
        return np.asarray(np.clip(np.rint(steps), -most - 1, most), np.float32)
    number = np.dtype(getattr(ml_dtypes, dtype))
    return np.asarray(np.clip(steps, -most, most).astype(np.float32).astype(number), np.float32)
