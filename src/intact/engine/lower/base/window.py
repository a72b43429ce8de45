"""The window of a convolution or pool as steps want it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from intact.engine.lower.base.builder import NoMatch
from intact.engine.steps.base.window import MOST_HOP, MOST_WIDTH
from intact.graph import Node
from intact.graph.ops import Windowed


@dataclass(frozen=True)
class LoweredWindow:
    """Geometry of a kernel over an image: (height, width), and pads as (top, left, bottom, right)."""

    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]


def window(node: Node, op: Windowed, kernel: Sequence[int]) -> LoweredWindow:
    """Return the window of a convolution or pool over images, or over sequences as images of height 1.

    Raises:
        NoMatch: Its pads are negative, or depend on sizes that are not known.
    """
    rank = len(kernel)
    if rank not in (1, 2):
        raise NoMatch(f"kernels know one or two spatial axes, not {rank}")
    strides, dilations = op.strides_of(rank), op.dilations_of(rank)
    pads = pads_of_window(node, op, kernel)
    if min(pads) < 0:
        raise NoMatch("its pads are negative")
    if max(*strides, *dilations) > MOST_HOP or max(*kernel, *pads) > MOST_WIDTH:
        raise NoMatch("its strides, dilations, kernel or pads are wider than any image")
    if rank == 1:  # an image of height 1
        return LoweredWindow((1, strides[0]), (1, dilations[0]), (0, pads[0], 0, pads[1]))
    top, left, bottom, right = pads
    return LoweredWindow((strides[0], strides[1]), (dilations[0], dilations[1]), (top, left, bottom, right))


def pads_of_window(node: Node, op: Windowed, kernel: Sequence[int]) -> tuple[int, ...]:
    """Return the pads before each axis, then behind each.

    Raises:
        NoMatch: They depend on sizes that are not known.
    """
    if node.op_type == "ConvTranspose" and op.auto_pad.startswith("SAME"):
        raise NoMatch("its pads follow from auto_pad")
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    sizes = [None] * len(kernel) if shape is None else [n if isinstance(n, int) else None for n in shape[2:]]
    pads = op.pads_of(kernel, sizes)
    if pads is None:
        raise NoMatch("its pads follow from a size that is not known")
    return pads
