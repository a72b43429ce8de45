"""Check the windows of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.tensors import Shape
from intact.numerics import Window

Pair = tuple[int, int]
Pads = tuple[int, int, int, int]
"""(top, left, bottom, right)"""
MOST_HOP = 2**24
"""Of a stride or a dilation: far above what any image has."""
MOST_WIDTH = 2**16
"""Of a kernel or a pad: what they add to an image takes memory and time."""


def check_window(
    checker: Checker, x: str, y: str, strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> None:
    """Refuse windows over anything but images, and numbers that no window has."""
    hops = *strides, *dilations
    checker.that(checker.rank(x, y) == (4, 4), f"'{x}', '{y}'", "images: rank 4")
    checker.that(all(0 < hop <= MOST_HOP for hop in hops), hops, "strides and dilations above 0")
    checker.that(all(0 <= pad <= MOST_WIDTH for pad in pads), pads, "pads of 0 or more")


def positions(
    x: Shape, kernel: Pair, strides: Pair, dilations: Pair, pads: Pads, ceil_mode: bool = False
) -> Shape:
    """Return the number of windows down and across an image.

    Raises:
        QuantValueError: The image is smaller than the kernel.
    """
    return Window.of(kernel, 2, strides, by_axis(pads), dilations, ceil_mode).positions(x[2:])


def by_axis(pads: Pads) -> tuple[Pair, Pair]:
    """Return the pads ((top, bottom), (left, right)), as `numerics` has them."""
    top, left, bottom, right = pads
    return (top, bottom), (left, right)
