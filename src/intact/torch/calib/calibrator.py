"""Base class of all calibrators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from intact.errors import UnsupportedError


class _Calibrator:
    """Base of calibrators.

    Args:
        num_bits: Width of the grid that the range is for, or ``(4, 3)`` / ``(5, 2)``.
        axis: The axes that keep a range of their own; None for one range.
        unsigned: True when the grid starts at 0.
    """

    def __init__(
        self, num_bits: int | tuple[int, int], axis: int | tuple[int, ...] | None, unsigned: bool
    ) -> None:
        self._num_bits = num_bits
        self._axis = axis
        self._unsigned = unsigned

    def collect(self, x: Tensor) -> None:
        """Look at one tensor."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget everything that was collected."""
        raise NotImplementedError

    def compute_amax(self, *args: Any, **kwargs: Any) -> Tensor | None:
        """Return the largest magnitude to represent; None before anything was collected."""
        raise NotImplementedError

    def compute_range(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor] | None:
        """Return both ends of the range to represent, for an asymmetric quantizer."""
        raise UnsupportedError(
            type(self).__name__,
            "a quantizer with symmetric=False",
            "a calibrator that keeps both signs apart",
            "use calib_method='max' or 'mergeable'",
        )

    def __repr__(self) -> str:
        return f"num_bits={self._num_bits} axis={self._axis} unsigned={self._unsigned}"


def as_real(x: Tensor) -> Tensor:
    """Return `x` itself, or whole numbers and bools as float32."""
    return x if x.is_floating_point() else x.to(torch.float32)
