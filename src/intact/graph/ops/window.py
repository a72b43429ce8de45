"""The window that convolutions and pools lay over an image: strides, dilations, pads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from intact.graph.ops.record import Operator

Dim = int | str | None
"""A size, its name, or nothing where nobody knows it before a run."""
Steps = Callable[[int | str, int, int], Dim]


@dataclass(frozen=True)
class Windowed(Operator, shared=True):
    """The attributes that convolutions and pools share; where they are left out a window has the defaults."""

    auto_pad: str = "NOTSET"
    kernel_shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()

    def strides_of(self, rank: int) -> tuple[int, ...]:
        """Return a stride for each of `rank` axes."""
        return self.strides or (1,) * rank

    def dilations_of(self, rank: int) -> tuple[int, ...]:
        """Return a dilation for each of `rank` axes."""
        return self.dilations or (1,) * rank

    def pads_of(self, kernel: Sequence[int], sizes: Sequence[Dim]) -> tuple[int, ...] | None:
        """Return the pads in front of each axis, then behind each, for images of `sizes`.

        Returns:
            None where that follows from a size that is not known.
        """
        rank = len(kernel)
        if self.auto_pad == "NOTSET":
            return self.pads or (0, 0) * rank
        if self.auto_pad == "VALID":
            return (0, 0) * rank
        before, after = [], []
        axes = zip(sizes, kernel, self.strides_of(rank), self.dilations_of(rank), strict=True)
        for size, k, stride, dilation in axes:
            if not isinstance(size, int) and stride != 1:
                return None
            size_or_one = size if isinstance(size, int) else 1
            total = max(0, (-(-size_or_one // stride) - 1) * stride + (k - 1) * dilation + 1 - size_or_one)
            less, more = total // 2, total - total // 2
            before.append(more if self.auto_pad == "SAME_LOWER" else less)
            after.append(less if self.auto_pad == "SAME_LOWER" else more)
        return *before, *after

    def positions(self, sizes: Sequence[Dim], kernel: Sequence[Dim], steps: Steps | None = None) -> list[Dim]:
        """Return how often the window fits along each axis; the same name wherever that is the same.

        Args:
            sizes, kernel: Of the image and of the window.
            steps: Returns ``(size + more) // stride`` of these three; None: a text, for a size with a name.
        """
        steps = steps or _steps
        rank = len(sizes)
        pads = self.pads or (0,) * 2 * rank
        counts: list[Dim] = []
        axes = zip(sizes, kernel, self.strides_of(rank), self.dilations_of(rank), strict=True)
        for axis, (size, k, stride, dilation) in enumerate(axes):
            if not isinstance(k, int) or size is None:
                counts.append(None)
                continue
            reach = 0 if self.auto_pad.startswith("SAME") else (k - 1) * dilation
            around = pads[axis] + pads[axis + rank] if self.auto_pad == "NOTSET" else 0
            counts.append(steps(size, around - reach + stride - 1, stride))
        return counts


def _steps(size: int | str, more: int, stride: int) -> int | str:
    """Return ``(size + more) // stride``."""
    if isinstance(size, int):
        return (size + more) // stride
    return size if (more, stride) == (0, 1) else f"({size}{more:+d})//{stride}"
