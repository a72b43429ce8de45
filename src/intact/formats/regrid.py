"""The same weights on another grid, where that changes no float."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.numerics import (
    BlockWeights,
    block_minima,
    block_scales,
    code_values,
    dequantize_blocks,
    integer_format,
)
from intact.spec import Format

_SCALES = {
    "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32), "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
}  # fmt: skip

_ELEMENTS = 1 << 20
"""That are compared at once."""


@dataclass(frozen=True)
class BlockGrid:
    """Describes what one file format can hold, with one level of scales.

    Attributes:
        name: Of the format, for errors: "GGUF Q4_0".
        format: Of the codes, as in `BlockWeights`.
        block_size: Elements that share a scale; None: any.
        scales: Names of dtypes of the scales, the first that is exact is taken.
        zero_points: Whether every block has an integer zero point.
        minima: Whether every block has a minimum of the scale's dtype.
        groups: Whether the block of each element may be named.
    """

    name: str
    format: str
    block_size: int | None = None
    scales: tuple[str, ...] = ("float16",)
    zero_points: bool = False
    minima: bool = False
    groups: bool = False


def describe(weights: BlockWeights) -> str:
    """Return the grid of weights in words: "uint4 in blocks of 128, float16 scales, zero points"."""
    coarse = weights.super_scales
    words = [f"{weights.format} in blocks of {weights.block_size}", f"{weights.scales.dtype} scales"]
    words += [] if coarse is None else [f"{coarse.dtype} super-scales"]
    words += [] if weights.zero_points is None else [f"{weights.zero_points.dtype} zero points"]
    words += [] if weights.minima is None else ["minima"]
    words += [] if weights.groups is None else ["groups"]
    return ", ".join(words)


def regrid(weights: BlockWeights, grid: BlockGrid) -> BlockWeights:
    """Return the same weights on `grid`; every float stays, bit for bit but for the sign of zeros.

    Codes are shifted or widened, blocks cut into smaller ones, scales stored in other dtypes.

    Args:
        weights: Shape [..., K].
        grid: What the format can hold.
    Raises:
        UnsupportedError: The grid cannot hold them; says what it lacks.
    """
    if grid.block_size is not None and weights.block_size % grid.block_size and weights.blocks > 1:
        raise _grid_mismatch(weights, grid)
    if _is_on(weights, grid):
        return weights
    scales, minima = block_scales(weights), block_minima(weights)
    if (minima is not None and not grid.minima) or (weights.groups is not None and not grid.groups):
        raise _grid_mismatch(weights, grid)
    codes, zero_points = _codes(weights, grid)
    if grid.minima and minima is None:
        minima = np.zeros(scales.shape, np.float32)
    if minima is not None and zero_points is not None:
        minima, zero_points = minima - zero_points.astype(np.float32) * scales, None
    size = grid.block_size if grid.block_size is not None else weights.block_size
    parts = [_cut(part, weights, size) for part in (scales, minima, zero_points)]
    result = BlockWeights(
        codes, grid.format, _narrow(parts[0], grid.scales, weights, grid), size,
        zero_points=parts[2],
        minima=None if parts[1] is None else _narrow(parts[1], grid.scales, weights, grid),
        groups=weights.groups,
    )  # fmt: skip
    if not _have_equal_floats(result, weights):
        raise _grid_mismatch(weights, grid)
    return result


def _is_on(weights: BlockWeights, grid: BlockGrid) -> bool:
    """Return whether weights with one level of scales lie on the grid as they are."""
    points = weights.zero_points
    return (
        weights.format == grid.format
        and grid.block_size in (None, weights.block_size)
        and weights.scales.dtype.name == grid.scales[0]
        and (points is not None) == grid.zero_points
        and (points is None or points.dtype == weights.codes.dtype)
        and not grid.minima
        and weights.minima is None
        and weights.super_scales is None
        and weights.groups is None
    )


def _codes(weights: BlockWeights, grid: BlockGrid) -> tuple[NDArray, NDArray | None]:
    """Return codes and zero points in the grid's format; for minima, the zero points that these replace."""
    points, has_offsets = weights.zero_points, grid.zero_points or grid.minima
    if points is not None and points.dtype.kind not in "iu":
        raise _grid_mismatch(weights, grid)
    if weights.format == grid.format and (points is None) == (not grid.zero_points):
        return weights.codes, points
    if weights.values is not None or code_values(grid.format) is not None:
        if weights.format != grid.format or grid.zero_points:
            raise _grid_mismatch(weights, grid)
        return weights.codes, None
    old, new = integer_format(weights.format), integer_format(grid.format)
    offsets = np.zeros(weights.scales.shape, np.int16) if points is None else points.astype(np.int16)
    if grid.zero_points:  # middle onto middle
        shift = int(new.qmin - old.qmin) + 2 ** (new.bits - 1) - 2 ** (old.bits - 1)
    elif grid.minima:
        shift = int(new.qmin - old.qmin)
    else:
        shift = -int(offsets.flat[0]) if offsets.size else 0
    offsets = offsets + np.int16(shift)
    if not _holds(new, weights.codes, shift) or (grid.zero_points and not _holds(new, offsets)):
        raise _grid_mismatch(weights, grid)
    if not has_offsets and offsets.any():
        raise _grid_mismatch(weights, grid)
    dtype = np.int8 if new.signed else np.uint8
    codes = (weights.codes.view(np.uint8) + np.uint8(shift % 256)).view(dtype)  # which wraps around
    if grid.zero_points:
        return codes, offsets.astype(dtype)
    return codes, offsets if offsets.any() else None


def _have_equal_floats(first: BlockWeights, second: BlockWeights) -> bool:
    """Return whether two weights stand for the same floats; a few rows at once take little memory."""

    def are_equal(left: BlockWeights, right: BlockWeights) -> bool:
        with np.errstate(invalid="ignore"):
            return np.array_equal(dequantize_blocks(left), dequantize_blocks(right), equal_nan=True)

    if first.codes.ndim < 2:
        return are_equal(first, second)
    rows = max(1, _ELEMENTS // max(1, prod(first.shape[1:])))
    parts = (slice(start, start + rows) for start in range(0, first.shape[0], rows))
    return all(are_equal(take_rows(first, part), take_rows(second, part)) for part in parts)


def _holds(integers: Format, codes: NDArray, shift: int = 0) -> bool:
    low, high = (int(codes.min()), int(codes.max())) if codes.size else (0, -1)
    return low > high or (integers.qmin <= low + shift and high + shift <= integers.qmax)


def _cut(part: NDArray | None, weights: BlockWeights, size: int) -> NDArray | None:
    """Cut the parameters of blocks into those of blocks of `size`."""
    if part is None or size == weights.block_size:
        return part
    blocks = -(-weights.codes.shape[-1] // size)
    return np.asarray(part[..., np.arange(blocks) * size // weights.block_size])


def _narrow(
    values: NDArray | None, dtypes: tuple[str, ...], weights: BlockWeights, grid: BlockGrid
) -> NDArray:
    assert values is not None
    for name in dtypes:
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = values.astype(_SCALES[name])
            if np.array_equal(narrow.astype(np.float32), values, equal_nan=True):
                return narrow
    raise _grid_mismatch(weights, grid)


def fits(weights: BlockWeights, grid: BlockGrid) -> bool:
    """Return whether `regrid` succeeds.

    Args:
        weights: Shape [N, K].
        grid: Of the format.
    """
    try:
        regrid(weights, grid)
    except UnsupportedError:
        return False
    return True


def _grid_mismatch(weights: BlockWeights, grid: BlockGrid) -> UnsupportedError:
    wants = [f"{grid.format}" + (f" in blocks of {grid.block_size}" if grid.block_size else "")]
    wants += [f"{' or '.join(grid.scales)} scales"]
    wants += ["zero points"] if grid.zero_points else []
    wants += ["minima"] if grid.minima else []
    return UnsupportedError(
        "weights", describe(weights), f"what {grid.name} holds exactly: {', '.join(wants)}",
        "choose a format with this grid, or quantize the floats anew",
    )  # fmt: skip


def without_groups(weights: BlockWeights) -> BlockWeights:
    """Return weights whose groups are just the blocks in order without them; others as they are."""
    if weights.groups is None:
        return weights
    plain = replace(weights, groups=None)
    return plain if np.array_equal(plain.block_of(), weights.groups) else weights


def sort_by_group(weights: BlockWeights) -> tuple[BlockWeights, NDArray[np.int64] | None]:
    """Put the elements of each group side by side, as a plain block.

    Returns:
        The weights, and where their elements were, int64 [K]: ``sorted.codes = codes[:, order]``. Without
        groups, and where groups have other sizes than blocks, the weights as they are, and None.
    """
    if weights.groups is None:
        return weights, None
    order = np.argsort(weights.groups, kind="stable")
    plain = replace(weights, codes=np.ascontiguousarray(weights.codes[..., order]), groups=None)
    if not np.array_equal(plain.block_of(), weights.groups[order]):
        return weights, None
    return plain, order


def take_rows(weights: BlockWeights, rows: slice | NDArray[np.int64]) -> BlockWeights:
    """Return some of the outputs of weights [N, ..., K].

    Args:
        weights: Shape [N, ..., K].
        rows: A slice, or numbers of outputs, int64 [rows].
    """

    def part(array: NDArray | None) -> NDArray | None:
        return array if array is None or not array.ndim else array[rows]

    return replace(
        weights, codes=weights.codes[rows], scales=weights.scales[rows],
        zero_points=part(weights.zero_points), minima=part(weights.minima),
        super_scales=part(weights.super_scales), super_minima=part(weights.super_minima),
    )  # fmt: skip


def join_rows(parts: Sequence[BlockWeights | NDArray[Any]]) -> BlockWeights | NDArray[Any]:
    """Return matrices [N, K] one below the other; as floats where their codes do not share a grid.

    Args:
        parts: Codes, or floats.
    """
    first, names = parts[0], ("codes", "scales", "zero_points", "minima", "super_scales", "super_minima")
    if not isinstance(first, BlockWeights) or not all(_shares_grid(first, part, names) for part in parts):
        floats = [dequantize_blocks(part) if isinstance(part, BlockWeights) else part for part in parts]
        return np.concatenate([np.asarray(array, np.float32) for array in floats])
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in names
        if getattr(first, name) is not None
    }
    return replace(first, **arrays)


def _shares_grid(first: BlockWeights, other: Any, names: Sequence[str]) -> bool:
    """Return whether the codes of two matrices may stand in one: every row has scales of its own."""
    if not isinstance(other, BlockWeights) or any(
        x is not None for x in (first.table, first.groups, other.groups)
    ):
        return False
    if (first.format, first.block_size, first.super_divides) != (
        other.format,
        other.block_size,
        other.super_divides,
    ):
        return False
    pairs = [(getattr(first, name), getattr(other, name)) for name in names]
    return all(
        (a is None) == (b is None) and (a is None or (a.ndim > 0 and a.dtype == b.dtype)) for a, b in pairs
    )
