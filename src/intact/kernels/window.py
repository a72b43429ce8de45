"""Windows of pools and convolutions over images."""

from __future__ import annotations

from dataclasses import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True)
class PixelWindow:
    """A window over the pixels of an image.

    Attributes:
        kernel, strides, dilations: (down, across).
        pads: (top, left, bottom, right).
    """

    kernel: Pair
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
