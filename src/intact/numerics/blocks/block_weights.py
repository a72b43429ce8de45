"""The record of block weights, and the floats that it stands for. NORMATIVE (docs/numerics.md, N67)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.numerics.blocks.code_values import OWN_TABLE, TABLE_SIZE, code_bits, code_values, integer_format
from intact.spec import is_whole

Array = NDArray
SCALE_DTYPES = ("float16", "bfloat16", "float32", "float8_e8m0fnu", "float8_e4m3fn")
"""Of scales that are real numbers; integer sub-scales are int8 or uint8 and need `super_scales`."""
_OFFSET_DTYPES = ("float16", "bfloat16", "float32")


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """Holds weights as codes that share a scale in blocks along the last axis, exactly as a file stores them.

    Attributes:
        codes: int8 or uint8 [..., K], one code each; of a table format the index of its value.
        format: The grid of the codes: intN or uintN with N = 2..8, fp4e2m1, fp8e4m3, fp8e5m2, nf4, iq4, or
            table4 with a `table`.
        scales: [..., blocks] of one of `SCALE_DTYPES`, any sign; or integer sub-scales, int8 or uint8, where
            `super_scales` multiplies them.
        block_size: Elements along K that share a scale; the last block may be shorter.
        zero_points: The code that means 0.0, [..., blocks]; integers, or floats, for integer formats alone.
            None: 0.
        minima: What is added behind the scale, [..., blocks]; floats, or integers that `super_minima`
            multiplies. None: 0.
        super_scales: Floats by which `scales` are multiplied: one for all, shape (), or [..., supers], where
            supers divides blocks. None: 1.
        super_divides: Whether `scales` are divided by `super_scales` instead.
        table: float32 [16], the values of codes of table4; None for other formats.
        super_minima: The same for `minima`, shape of `super_scales`; negative for formats that subtract.
        groups: int32 [K], the block of each element, where neighbours do not share scales ("act-order").
            None: ``k // block_size``.

    Raises:
        QuantValueError: Shapes or dtypes do not fit, or a code is none of the format.

    Rule N67.
    """

    codes: Array
    format: str
    scales: Array
    block_size: int
    zero_points: Array | None = None
    minima: Array | None = None
    super_scales: Array | None = None
    super_minima: Array | None = None
    groups: Array | None = None
    super_divides: bool = False
    table: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if not is_whole(self.block_size) or self.block_size < 1:
            raise _error("block_size", f"{self.block_size!r:.40}", "a positive integer")
        if self.codes.ndim < 1 or self.codes.dtype not in (np.int8, np.uint8):
            raise _error("codes", f"{self.codes.dtype} {self.codes.shape}", "int8 or uint8 [..., K]")
        self._check_table()
        self._check_codes()
        self._check_scales()
        self._check_offsets()
        if self.groups is not None:
            blocks, size = self.scales.shape[-1], self.codes.shape[-1]
            if self.groups.shape != (size,) or self.groups.dtype.kind not in "iu":
                raise _error(
                    "groups", f"{self.groups.dtype} {self.groups.shape}", f"integers of shape ({size},)"
                )
            if size and not 0 <= int(self.groups.min()) <= int(self.groups.max()) < blocks:
                raise _error("groups", f"{self.groups.min()} to {self.groups.max()}", f"0 to {blocks - 1}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights, that of the codes."""
        return self.codes.shape

    @property
    def bits(self) -> int:
        """Bits of one code."""
        return 4 if self.format == OWN_TABLE else code_bits(self.format)

    @property
    def blocks(self) -> int:
        """Number of blocks along the last axis."""
        return int(self.scales.shape[-1])

    @property
    def values(self) -> NDArray[np.float32] | None:
        """Value of each code, float32 [2 ** bits]; None where codes are numbers."""
        return self.table if self.format == OWN_TABLE else code_values(self.format)

    def block_of(self) -> NDArray[np.int64]:
        """Return the block of each element along the last axis, int64 [K]."""
        if self.groups is not None:
            return self.groups.astype(np.int64)
        return np.arange(self.codes.shape[-1]) // self.block_size

    def _check_codes(self) -> None:
        if self.values is None:
            grid = integer_format(self.format)
            low, high, signed = int(grid.qmin), int(grid.qmax), grid.signed
        else:
            low, high, signed = 0, 2**self.bits - 1, False
        if (self.codes.dtype == np.int8) != signed:
            raise _error("codes", str(self.codes.dtype), f"{'int8' if signed else 'uint8'} for {self.format}")
        if self.codes.size and not low <= int(self.codes.min()) <= int(self.codes.max()) <= high:
            raise _error(
                "codes", f"{self.codes.min()} to {self.codes.max()}", f"{low} to {high} for {self.format}"
            )

    def _check_table(self) -> None:
        table = self.table
        is_own = self.format == OWN_TABLE
        if table is None and not is_own:
            return
        if table is None or not is_own or table.dtype.name != "float32" or table.shape != (TABLE_SIZE,):
            got = "none" if table is None else f"{table.dtype} {table.shape}"
            raise _error("table", f"{got} of {self.format}", f"float32 ({TABLE_SIZE},) of {OWN_TABLE} alone")

    def _check_scales(self) -> None:
        size = self.codes.shape[-1]
        expected = (*self.codes.shape[:-1], -(-size // self.block_size))
        if self.scales.shape != expected:
            raise _error("scales", f"shape {self.scales.shape}", f"shape {expected}: one for each block")
        integers = self.scales.dtype in (np.int8, np.uint8)
        if self.scales.dtype.name not in SCALE_DTYPES and not (integers and self.super_scales is not None):
            raise _error(
                "scales",
                str(self.scales.dtype),
                f"{', '.join(SCALE_DTYPES)}, or int8 and uint8 with super_scales",
            )
        if integers and self.super_divides:
            raise _error("super_divides", "True with integer sub-scales", "False")
        if self.super_scales is not None:
            _check_supers("super_scales", self.super_scales, self.scales)

    def _check_offsets(self) -> None:
        for name, offsets in (("zero_points", self.zero_points), ("minima", self.minima)):
            if offsets is None:
                continue
            if offsets.shape != self.scales.shape:
                raise _error(name, f"shape {offsets.shape}", f"shape {self.scales.shape}, that of the scales")
            integers = offsets.dtype in (np.int8, np.uint8)
            if not integers and offsets.dtype.name not in _OFFSET_DTYPES:
                raise _error(name, str(offsets.dtype), f"int8, uint8, {', '.join(_OFFSET_DTYPES)}")
        if self.zero_points is not None and self.values is not None:
            raise _error("zero_points", f"some with format {self.format}", "None: a table has no zero point")
        if (self.minima is not None and self.minima.dtype.kind in "iu") != (self.super_minima is not None):
            raise _error("super_minima", "integer minima without, or float ones with them", "both or none")
        if self.super_minima is not None and self.minima is not None:
            _check_supers("super_minima", self.super_minima, self.minima)


def dequantize_blocks(weights: BlockWeights) -> NDArray[np.float32]:
    """Compute ``fl32(fl32((q - z) * s) + m)``, ``s = fl32(S * scale)``, ``m = fl32(M * minimum)``. NORMATIVE.

    S and M are super_scales and super_minima, where there are any; with super_divides
    ``s = fl32(scale / S)``. Of a table format the table's value stands for q. Integer zero points are
    subtracted exactly, float ones in float32. Without minima nothing is added.

    Args:
        weights: Shape [..., K].
    Returns:
        float32 [..., K].
    Source: ONNX DequantizeLinear (opset 21); com.microsoft MatMulNBits; ggml's dequantize_row_*. Libraries
        that compute in the scale's own 16 bits give these floats, rounded once to it.

    Rule N67.
    """
    if not weights.codes.size:
        return np.zeros(weights.shape, np.float32)
    block = weights.block_of()
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        result = code_steps(weights) * block_scales(weights)[..., block]
        if (minima := block_minima(weights)) is not None:
            result = result + minima[..., block]
    return np.asarray(result, np.float32)


def code_steps(weights: BlockWeights) -> NDArray[np.float32]:
    """Compute ``q - z`` as float32 [..., K], or the table's values: what the scales multiply. NORMATIVE.

    Rule N67.
    """
    values = weights.values
    if values is not None:
        return np.asarray(values[weights.codes])
    zero = weights.zero_points
    if zero is None:
        return weights.codes.astype(np.float32)
    points = zero[..., weights.block_of()]
    if zero.dtype.kind in "iu":
        return np.asarray((weights.codes.astype(np.int32) - points.astype(np.int32)).astype(np.float32))
    return np.asarray(weights.codes.astype(np.float32) - points.astype(np.float32))


def block_scales(weights: BlockWeights) -> NDArray[np.float32]:
    """Compute the scale of each block, float32 [..., blocks], super-scales multiplied in. NORMATIVE.

    Rule N67.
    """
    if not weights.super_divides or weights.super_scales is None:
        return _product(weights.scales, weights.super_scales)
    with np.errstate(all="ignore"):
        divisors = _product(np.ones(weights.scales.shape, np.float32), weights.super_scales)
        return np.asarray(weights.scales.astype(np.float32) / divisors)


def block_minima(weights: BlockWeights) -> NDArray[np.float32] | None:
    """Compute what is added in each block, float32 [..., blocks]; None for no minima. NORMATIVE.

    Rule N67.
    """
    return None if weights.minima is None else _product(weights.minima, weights.super_minima)


def _product(fine: Array, coarse: Array | None) -> NDArray[np.float32]:
    fine = fine.astype(np.float32)
    if coarse is None:
        return fine
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        coarse = coarse.astype(np.float32)
        if coarse.ndim:
            coarse = np.repeat(coarse, fine.shape[-1] // max(coarse.shape[-1], 1), axis=-1)
        return np.asarray(fine * coarse, np.float32)


def _check_supers(name: str, supers: Array, fine: Array) -> None:
    """Refuse super-scales that are no floats, or do not divide the blocks evenly."""
    if supers.dtype.name not in _OFFSET_DTYPES:
        raise _error(name, str(supers.dtype), ", ".join(_OFFSET_DTYPES))
    divides = supers.shape == () or (
        supers.shape[:-1] == fine.shape[:-1]
        and (fine.shape[-1] == 0 if supers.shape[-1] == 0 else fine.shape[-1] % supers.shape[-1] == 0)
    )
    if not divides:
        raise _error(
            name, f"shape {supers.shape}", f"(), or one for some of the {fine.shape[-1]} blocks each"
        )


def _error(where: str, got: str, want: str) -> QuantValueError:
    return QuantValueError(where, got, want, "give the parts of one tensor, as `BlockWeights` describes them")


_LARGEST = np.iinfo(np.int8).max


def split_levels(weights: BlockWeights) -> dict[str, NDArray]:
    """Return scales and minima as steps read them, by name.

    ``scales`` and ``minima`` are float32 [..., blocks]. Integers that int8 holds stay: ``sub_scales`` and
    ``sub_minima`` are int8 [..., blocks], and the floats are those of super-blocks, [..., supers]. What the
    weights lack is left out.
    """
    arrays = _levels("scales", weights.scales, weights.super_scales, block_scales(weights))
    if (minima := block_minima(weights)) is not None and weights.minima is not None:
        arrays |= _levels("minima", weights.minima, weights.super_minima, minima)
    return arrays


def join_levels(weights: BlockWeights) -> BlockWeights:
    """Return weights whose scales and minima have one level, float32: the products of the two (N67).

    Rule N69.
    """
    return replace(
        weights, scales=block_scales(weights), minima=block_minima(weights), super_scales=None,
        super_minima=None, super_divides=False,
    )  # fmt: skip


def _levels(
    name: str, fine: NDArray, coarse: NDArray | None, product: NDArray[np.float32]
) -> dict[str, NDArray]:
    is_small = fine.dtype.kind in "iu" and fine.size > 0 and fine.max() <= _LARGEST
    if coarse is None or not is_small or (coarse.ndim and coarse.shape == fine.shape):
        return {name: product}
    supers = coarse if coarse.ndim else np.broadcast_to(coarse, (*fine.shape[:-1], 1))
    return {name: supers.astype(np.float32), f"sub_{name}": fine.astype(np.int8)}
