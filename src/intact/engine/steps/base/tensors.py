"""Values between steps, and the grids that their codes lie on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.dims import Dim, value_of
from intact.numerics import Affine
from intact.spec import INT8, UINT8, QuantSpec

Shape = tuple[int, ...]
STRING = "string"
"""The dtype of tensors of strings, which ONNX Runtime and Python alone read and make: no kernel has them."""


@dataclass(frozen=True)
class Codes:
    """The grid of a tensor of codes, and which codes can occur.

    Attributes:
        scale: Real size of one step, a float32 number.
        zero_point: The code that means 0.0.
        signed: int8 codes; False: uint8.
        low, high: Ends of what its producer can write, in codes of that format. The zero point may lie
            outside of them.
    """

    scale: float
    zero_point: int
    signed: bool
    low: int
    high: int

    @property
    def stored_range(self) -> tuple[int, int]:
        """Ends of the codes in its memory: what its producer can write, and the zero point, for padding."""
        return min(self.low, self.zero_point), max(self.high, self.zero_point)

    @property
    def offset(self) -> int:
        """Kernels read bytes: byte = code + offset. Codes that are never negative are bytes already."""
        return 128 if self.stored_range[0] < 0 else 0

    @property
    def spec(self) -> QuantSpec:
        """The codes as `numerics` describes them."""
        return QuantSpec(INT8 if self.signed else UINT8, symmetric=self.zero_point == 0)

    @property
    def affine(self) -> Affine:
        """(scale, zero point) as `numerics` wants them."""
        return np.float32(self.scale), self.zero_point


@dataclass(frozen=True)
class Tensor:
    """A value between steps.

    Attributes:
        name: Unique in the plan: the graph's name for the real tensor where there is one.
        dtype: "codes", "string", or a NumPy dtype's name ("float32", "int64", "bool", ...).
        shape: ONNX's order.
        codes: Its grid, where dtype is "codes".
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    codes: Codes | None = None

    def partial_shape(self, sizes: Mapping[str, int]) -> tuple[int | None, ...]:
        """Return the shape with the free sizes that are known or follow; None for others."""
        return tuple(value_of(d, sizes) if isinstance(d, str) else d for d in self.shape)

    @property
    def stored_dtype(self) -> str:
        """The dtype in which callers pass and get it, and the graph has it: strings are Python's objects."""
        if self.dtype == STRING:
            return "object"
        return self.dtype if self.codes is None else "int8" if self.codes.signed else "uint8"
