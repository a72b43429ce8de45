"""The window of a convolution or pool as steps want it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from intact.engine.lower.builder import NoMatch
from intact.engine.steps.window import MOST_HOP, MOST_WIDTH
from intact.graph import Node
from intact.graph.attributes import integers, text


@dataclass(frozen=True)
class Window:
    """How a kernel is laid over an image: (height, width), pads as (top, left, bottom, right)."""

    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]


def window(node: Node, kernel: Sequence[int]) -> Window:
    """The window of a convolution or pool over images, or over sequences as images of height 1.

    Raises:
        NoMatch: Its pads are negative, or depend on sizes that are not known.
    """
    rank = len(kernel)
    if rank not in (1, 2):
        raise NoMatch(f"kernels know one or two spatial axes, not {rank}")
    strides, dilations = (integers(node, name, (1,) * rank) for name in ("strides", "dilations"))
    pads = _pads(node, kernel, strides, dilations)
    if min(pads) < 0:
        raise NoMatch("its pads are negative")
    if max(*strides, *dilations) > MOST_HOP or max(*kernel, *pads) > MOST_WIDTH:
        raise NoMatch("its strides, dilations, kernel or pads are wider than any image")
    if rank == 1:  # an image of height 1
        return Window((1, strides[0]), (1, dilations[0]), (0, pads[0], 0, pads[1]))
    top, left, bottom, right = pads
    return Window((strides[0], strides[1]), (dilations[0], dilations[1]), (top, left, bottom, right))


def _pads(
    node: Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    auto = text(node, "auto_pad", "NOTSET")
    if auto == "VALID":
        return (0, 0) * len(kernel)
    if auto == "NOTSET":
        return integers(node, "pads", (0, 0) * len(kernel))
    if node.op_type == "ConvTranspose":
        raise NoMatch("its pads follow from auto_pad")
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    before, after = [], []
    for axis, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        size = shape[2 + axis] if shape is not None else None
        if not isinstance(size, int):
            if s != 1:
                raise NoMatch("its pads follow from a size that is not known")
            size = 1
        total = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
        less, more = total // 2, total - total // 2
        before.append(more if auto == "SAME_LOWER" else less)
        after.append(less if auto == "SAME_LOWER" else more)
    return *before, *after
