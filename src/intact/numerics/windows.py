"""Sliding windows of convolution and pooling, of any rank, as a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from intact.errors import QuantValueError

Size = int | Sequence[int]
Padding = int | Sequence[int] | Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Window:
    """A sliding window over the spatial axes of an image; make one with `Window.of`.

    Attributes:
        kernel, stride, dilation: One positive integer per spatial axis.
        padding: (before, after) per spatial axis.
        ceil_mode: Round the number of positions up: the last window may overhang the padded input, but
            starts inside the input or the padding before it.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False

    @classmethod
    def of(
        cls, kernel: Size, rank: int, stride: Size, padding: Padding, dilation: Size, ceil_mode: bool = False
    ) -> Window:
        """Return a window over `rank` spatial axes.

        One integer stands for all of them, a padding for both sides.

        Raises:
            QuantValueError: A list has another length than `rank`, or a number is out of range.
        """
        both = ((padding, padding),) * rank if isinstance(padding, int) else tuple(map(_pair, padding))
        per_axis = [
            (s,) * rank if isinstance(s, int) else tuple(map(int, s)) for s in (kernel, stride, dilation)
        ]
        sizes = [len(both), *map(len, per_axis)]
        if sizes != [rank] * 4 or min(map(min, per_axis)) < 1 or min(map(min, both)) < 0:
            raise QuantValueError(
                "window",
                f"kernel {kernel}, stride {stride}, padding {padding}, dilation {dilation}",
                f"{rank} positive numbers each, padding not negative",
                "give one integer, or one per spatial axis",
            )
        return cls(per_axis[0], per_axis[1], both, per_axis[2], ceil_mode)

    def positions(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Number of windows along each spatial axis of an input of `sizes`.

        Raises:
            QuantValueError: A window is larger than the padded input.
        """
        counts = []
        for size, (before, after), stride, taps in zip(
            sizes, self.padding, self.stride, self._reach(), strict=True
        ):
            room = size + before + after - taps
            count = (room + (stride - 1 if self.ceil_mode else 0)) // stride + 1
            if self.ceil_mode and (count - 1) * stride >= size + before:
                count -= 1
            if count < 1:
                raise QuantValueError(
                    "window",
                    f"{taps} taps for a padded size of {size + before + after}",
                    "a window no larger than the padded input",
                    "pad more, or use a smaller kernel",
                )
            counts.append(count)
        return tuple(counts)

    def view(self, x: NDArray, fill: float, beyond: float) -> NDArray:
        """Return the windows of `x` [n, channels, *sizes] as a view [n, channels, *positions, *kernel].

        Args:
            x: The input.
            fill: What padding reads.
            beyond: What a window reads that overhangs the padded input (`ceil_mode`).
        """
        sizes = x.shape[2:]
        counts = self.positions(sizes)
        reach = self._reach()
        overhang = [
            max(0, (count - 1) * stride + taps - size - sum(pads))
            for count, stride, taps, size, pads in zip(
                counts, self.stride, reach, sizes, self.padding, strict=True
            )
        ]
        x = np.pad(x, ((0, 0), (0, 0), *self.padding), constant_values=fill)
        if any(overhang):
            x = np.pad(x, ((0, 0), (0, 0), *[(0, n) for n in overhang]), constant_values=beyond)
        all_windows = sliding_window_view(x, reach, axis=tuple(range(2, x.ndim)))
        steps = [slice(0, count * s, s) for count, s in zip(counts, self.stride, strict=True)]
        taps = [slice(None, None, d) for d in self.dilation]
        return all_windows[(slice(None), slice(None), *steps, *taps)]

    def _reach(self) -> tuple[int, ...]:
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))


def _pair(padding: int | tuple[int, int]) -> tuple[int, int]:
    return (padding[0], padding[1]) if isinstance(padding, (tuple, list)) else (int(padding), int(padding))
