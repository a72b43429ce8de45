"""How sums become outputs, as native steps are told: one record for convolutions and products alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.kernels import _native
from intact.kernels.program import View
from intact.kernels.registry import chosen_kernels


@dataclass(frozen=True)
class Bytes:
    """Where floats in steps of a scale become bytes: ``clamp(rne(steps) + zero, low, high)``."""

    zero: int
    low: int = 0
    high: int = 255

    def packed(self) -> tuple[int, int, int]:
        """As native code takes it."""
        return self.zero, self.low, self.high


@dataclass(frozen=True)
class BoundEpilogue:
    """`intact.engine.steps.Epilogue` (N22 to N25) in bytes and arrays.

    Attributes:
        multiplier, bias: M and B, float32, one for each output channel.
        correction: int32, added to the sums: what zero points and integer biases come to.
        grid: Bytes out; None: floats.
        low, high: Bounds of floats.
        residual: Bytes, an image of the sizes of the output: ``(r - residual_zero) * residual_multiplier`` is
            added behind B, or behind `shifts`.
        function: A function of `numerics` that the real sum goes through, "" for none; where the output is
            bytes, what it gives is divided by `scale` and rounded (N11).
        scale: Of the output, behind a function or where `divides`.
        factors: float32, one for each output channel: what the function gives is multiplied by them; None:
            it is not.
        slopes: float32, one for each output channel, by which what is below 0 behind the residual is
            multiplied; None: nothing is. Not with a function.
        offsets: float32, one for each output channel, added behind the factors; None: none are.
        divides: Codes are what is made so far, divided by `scale`: always with a residual, gains or slopes.
        gains, shifts: float32, one for each output channel: factors behind B, and what is added behind them;
            None: neither.
        quotient: What reals are divided by in place of gains, of a product of activations; 1: nothing.
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
        """As the makers of native steps take it: they copy its numbers."""
        spec = _native.EpilogueSpec()
        spec.floats = self.grid is None
        spec.zero_point, spec.low, spec.high = (self.grid or Bytes(0)).packed()
        spec.real_low, spec.real_high = self.low, self.high
        spec.correction = np.ascontiguousarray(self.correction, np.int32)
        spec.multiplier, spec.bias = _floats(self.multiplier), _floats(self.bias)
        spec.residual = self.residual
        spec.residual_multiplier, spec.residual_zero_point = self.residual_multiplier, self.residual_zero
        spec.set_function(chosen_kernels()["float_steps"], self.function)
        spec.scale, spec.divides, spec.quotient = self.scale, self.divides, self.quotient
        spec.factors, spec.offsets = _floats(self.factors), _floats(self.offsets)
        spec.slopes = _floats(self.slopes)
        spec.gains, spec.shifts = _floats(self.gains), _floats(self.shifts)
        return spec


def _floats(values: ArrayLike | None) -> NDArray[np.float32]:
    """As native code takes what may be missing: without elements then."""
    return np.ascontiguousarray(() if values is None else values, np.float32)
