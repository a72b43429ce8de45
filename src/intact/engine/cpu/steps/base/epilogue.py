"""The epilogue of a layer in bytes and arrays, for all steps that form sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.binding import Binding
from intact.engine.cpu.steps.base.views import grid_of, zero_of
from intact.engine.steps import Epilogue
from intact.kernels import BoundEpilogue, View
from intact.numerics import NO_OFFSET


def bind_epilogue(
    epilogue: Epilogue, y: str, binding: Binding, *, channels: int, repeats: int = 1,
    correction: NDArray[Any] | int = 0, residual: View | None = None,
) -> BoundEpilogue:  # fmt: skip
    """What happens to the sums of a layer that makes y.

    Args:
        epilogue: Of the plan.
        y: The tensor.
        binding: Has the constants and the grids.
        channels: Of the output.
        repeats: So often the layer's own channels follow one another in them.
        correction: What the zero points of the products' factors add to each channel's sum.
        residual: The image of `epilogue.residual`, or the part of it that goes with this part of y.
    """

    def each(constant: str) -> NDArray[Any]:
        return np.tile(np.broadcast_to(binding.array(constant), channels // repeats), repeats)

    if epilogue.integer_bias:
        correction = correction + each(epilogue.integer_bias)
    codes = binding.tensor(y).codes
    clamps = not epilogue.activation  # a function's output has the whole grid, or all floats
    low, high = (epilogue.low, epilogue.high) if clamps else (None, None)
    return BoundEpilogue(
        multiplier=each(epilogue.multiplier),
        bias=each(epilogue.bias) if epilogue.bias else np.zeros(channels, np.float32),
        correction=np.broadcast_to(np.asarray(correction), channels).astype(np.int32),
        grid=None if codes is None else grid_of(codes, low, high),
        low=low if codes is None and low is not None else float("-inf"),
        high=high if codes is None and high is not None else float("inf"),
        residual=residual,
        residual_multiplier=epilogue.residual_multiplier,
        residual_zero=zero_of(binding.codes(epilogue.residual)) if epilogue.residual else 0,
        function=epilogue.activation,
        scale=1.0 if codes is None else codes.scale,
        factors=each(epilogue.factors) if epilogue.factors else None,
        slopes=each(epilogue.slope) if epilogue.slope else None,
        offsets=each(epilogue.offsets) if epilogue.offsets else None,
        divides=epilogue.divides and codes is not None and not epilogue.activation,
        gains=each(epilogue.gain) if epilogue.gain else None,
        shifts=_shifts(epilogue, each, channels),
        quotient=epilogue.quotient,
    )


def _shifts(epilogue: Epilogue, each: Callable[[str], NDArray[Any]], channels: int) -> NDArray[Any] | None:
    """What stands behind the gains: a number that changes nothing where the plan has none."""
    if epilogue.shift:
        return each(epilogue.shift)
    return np.full(channels, NO_OFFSET, np.float32) if epilogue.gain else None
