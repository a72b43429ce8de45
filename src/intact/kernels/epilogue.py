"""The epilogue of native convolutions and products: one record for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.kernels import _native
from intact.kernels.program import View
from intact.kernels.registry import kernels_in_use
from intact.processes import cached_property


@dataclass(frozen=True)
class Bytes:
    """A grid of bytes: floats in steps of its scale become ``clamp(rne(steps) + zero, low, high)``."""

    zero: int
    low: int = 0
    high: int = 255

    def as_tuple(self) -> tuple[int, int, int]:
        """Return (zero, low, high), for native code."""
        return self.zero, self.low, self.high


@dataclass(frozen=True)
class BoundEpilogue:
    """An `intact.engine.steps.Epilogue` (N22 to N25) with its constants as bytes and arrays.

    Attributes:
        multiplier, bias: M and B, float32 [channels].
        correction: int32 [channels], added to the sums for zero points and integer biases.
        grid: The grid of the output bytes; None for a float output.
        low, high: Bounds of a float output.
        residual: Bytes, an image with the sizes of the output. ``(r - residual_zero) * residual_multiplier``
            is added after B, gains and shifts.
        function: A function of `numerics.FUNCTIONS` that is applied to the real sum; "" for none. For an
            output of bytes, its value is divided by `scale` and rounded (N11).
        scale: The scale of the output; used with a function, or where `divides`.
        factors: float32 [channels], multiply the value of the function; None: no factors.
        slopes: float32 [channels], multiply negative sums after the residual; None: no slopes. Not with a
            function.
        offsets: float32 [channels], added after the factors; None: no offsets.
        divides: Codes are the real sum divided by `scale`: always with a residual, gains or slopes.
        gains, shifts: float32 [channels], multiplied and added after B; None: neither.
        quotient: Divides the sums of a product of activations, in place of gains; 1: no effect.
    """

    multiplier: ArrayLike
    bias: ArrayLike
    correction: ArrayLike
    grid: Bytes | None = Bytes(0)
    low: float = float("-inf")
    high: float = float("inf")
    residual: View | None = None
    residual_multiplier: float = 0.0
    residual_zero: int = 0
    function: str = ""
    scale: float = 1.0
    factors: ArrayLike | None = None
    slopes: ArrayLike | None = None
    offsets: ArrayLike | None = None
    divides: bool = False
    gains: ArrayLike | None = None
    shifts: ArrayLike | None = None
    quotient: float = 1.0

    @cached_property
    def native(self) -> _native.EpilogueSpec:
        """The record for the makers of native steps, which copy its numbers."""
        spec = _native.EpilogueSpec()
        spec.floats = self.grid is None
        spec.zero_point, spec.low, spec.high = (self.grid or Bytes(0)).as_tuple()
        spec.real_low, spec.real_high = self.low, self.high
        spec.correction = np.ascontiguousarray(self.correction, np.int32)
        spec.multiplier, spec.bias = _floats(self.multiplier), _floats(self.bias)
        spec.residual = self.residual
        spec.residual_multiplier, spec.residual_zero_point = self.residual_multiplier, self.residual_zero
        spec.set_function(kernels_in_use()["float_steps"], self.function)
        spec.scale, spec.divides, spec.quotient = self.scale, self.divides, self.quotient
        spec.factors, spec.offsets = _floats(self.factors), _floats(self.offsets)
        spec.slopes = _floats(self.slopes)
        spec.gains, spec.shifts = _floats(self.gains), _floats(self.shifts)
        return spec


def _floats(values: ArrayLike | None) -> NDArray[np.float32]:
    """Convert to float32 for native code; None becomes empty."""
    return np.ascontiguousarray(() if values is None else values, np.float32)
