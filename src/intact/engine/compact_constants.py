"""Store float32 constants of a plan file in fewer bits, and widen them when they are read.

Weights of a weight-only model are codes of 4 or 8 bits with scales, or 16-bit floats; kernels read float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.codec import format_error

LEAST = 256
"""Elements of the smallest constant that is worth it."""

_BITS = {"float16": 16, "bfloat16": 16, "int8": 8, "uint8": 8, "int4": 4, "uint4": 4}
_REALS = ("float16", "bfloat16")


@dataclass(frozen=True)
class Form:
    """Describes how the bytes of a stored constant are decoded.

    Attributes:
        dtype: Of the codes: "float16" and "bfloat16", which are reals, or an integer of 4 or 8 bits.
        shape: Of the codes.
        order: Axes of the codes in the order in which the constant has them; it may join or split them then.
        scale: Shape of the scales: of each axis its size, or 1; () for reals.
        axis, block: So many neighbours along this axis share a scale; block 0: none do.
        zero: Whether there are zero points, of the scales' shape.
    """

    dtype: str
    shape: tuple[int, ...]
    order: tuple[int, ...]
    scale: tuple[int, ...] = ()
    axis: int = 0
    block: int = 0
    zero: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the codes: two of 4 bits share one, the first in the low half."""
        return -(-prod(self.shape) * _BITS[self.dtype] // 8)

    def check(self, where: str, shape: tuple[int, ...]) -> None:
        """Refuse a form that fits no constant of `shape`.

        Raises:
            FileFormatError: Names `where`.
        """
        rank = len(self.shape)
        sound = (
            self.dtype in _BITS and all(size > 0 for size in (*self.shape, *shape))
            and prod(self.shape) == prod(shape) and sorted(self.order) == list(range(rank))
        )  # fmt: skip
        if sound and self.dtype in _REALS:
            sound = self == Form(self.dtype, self.shape, self.order)
        elif sound:
            sound = len(self.scale) == rank and 0 <= self.axis < rank and self.block >= 0
            sound = sound and all(n in (1, self._scales(axis)) for axis, n in enumerate(self.scale))
        if not sound:
            raise format_error(where, self, "a form of such a constant")

    def _scales(self, axis: int) -> int:
        """Return the number of scales along an axis that is neither shared nor blocked."""
        return -(-self.shape[axis] // self.block) if self.block and axis == self.axis else self.shape[axis]


@dataclass(frozen=True, eq=False)
class Stored:
    """A float32 constant in fewer bits.

    Attributes:
        form: What they mean.
        codes: uint8, the bytes of the codes.
        scale: float32, the form's shape; None for reals.
        zero: int16, likewise; None where there are none.
    """

    form: Form
    codes: NDArray[np.uint8]
    scale: NDArray[np.float32] | None = None
    zero: NDArray[np.int16] | None = None

    def widen(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Decode the constant into a new array of `shape`: ``fl32(q - z) * scale`` (N12), or the reals."""
        values = _unpack(self.codes, self.form)
        if self.zero is not None:
            values = values - self._for_each_code(self.zero.astype(np.float32))
        if self.scale is not None:
            with np.errstate(all="ignore"):
                values = values * self._for_each_code(self.scale)
        return np.ascontiguousarray(values.transpose(self.form.order)).reshape(shape)

    def _for_each_code(self, parameters: NDArray[Any]) -> NDArray[Any]:
        form = self.form
        if not form.block or parameters.shape[form.axis] == 1:
            return parameters
        spread = np.repeat(parameters, form.block, form.axis)
        return spread[(slice(None),) * form.axis + (slice(form.shape[form.axis]),)]


def compact_codes(
    codes: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any] | None, axis: int, block: int
) -> Stored:
    """Pack the constant inputs of a DequantizeLinear into as few bits as its codes need.

    Args:
        codes: int8 or uint8.
        scale, zero: One number, one for each index of `axis`, or with `block` one for so many of them.
        axis: From 0.
    """
    low, high = int(codes.min()), int(codes.max())
    signed = codes.dtype.kind == "i"
    few = (low >= -8 and high <= 7) if signed else high <= 15
    shape = tuple(codes.shape)
    granules = [n if scale.size > 1 and i == axis else 1 for i, n in enumerate(shape)]
    granules, zeros = list(scale.shape) if block else granules, None
    if zero is not None and zero.any():
        shape_of_zeros = granules if zero.size > 1 else [1] * len(shape)
        zeros = np.broadcast_to(zero.astype(np.int16).reshape(shape_of_zeros), granules)
    dtype = f"{'' if signed else 'u'}int{4 if few else 8}"
    form = Form(dtype, shape, tuple(range(len(shape))), tuple(granules), axis, block, zeros is not None)
    return Stored(form, _pack(codes, few), scale.astype(np.float32).reshape(granules), zeros)


def compact_reals(array: NDArray[Any]) -> Stored | None:
    """Pack a float32 constant into 16-bit floats; None where these would lose a bit."""
    if array.dtype != np.float32 or array.size < LEAST:
        return None
    bits = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
    form = Form("bfloat16", array.shape, tuple(range(array.ndim)))
    if not (bits & 0xFFFF).any():
        return Stored(form, (bits >> 16).astype(np.uint16).view(np.uint8))
    with np.errstate(over="ignore"):
        half = array.reshape(-1).astype(np.float16)
    if not np.array_equal(half.astype(np.float32).view(np.uint32), bits):
        return None
    return Stored(Form("float16", array.shape, form.order), half.view(np.uint8))


def _pack(codes: NDArray[Any], few: bool) -> NDArray[np.uint8]:
    """Pack codes into bytes; `few`: two codes of 4 bits in each."""
    flat: NDArray[np.uint8] = np.ascontiguousarray(codes).reshape(-1).view(np.uint8)
    if not few:
        return flat
    even = np.zeros(flat.size + flat.size % 2, np.uint8)
    even[: flat.size] = flat & 15
    even[::2] |= even[1::2] << np.uint8(4)
    return even[::2].copy()


def _unpack(codes: NDArray[np.uint8], form: Form) -> NDArray[np.float32]:
    if form.dtype == "float16":
        values = codes.view(np.float16).astype(np.float32)
    elif form.dtype == "bfloat16":
        values = (codes.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif form.dtype.endswith("8"):
        values = codes.view(form.dtype).astype(np.float32)
    else:
        halves = np.stack([codes & 15, codes >> 4], axis=-1).reshape(-1)[: prod(form.shape)]
        values = halves.astype(np.float32)
        if form.dtype == "int4":
            values -= (halves & 8).astype(np.float32) * 2
    return values.reshape(form.shape)
