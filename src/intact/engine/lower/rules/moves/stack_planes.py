"""Lowers windows over three axes to windows over planes: volumes [n, c, d, h, w] as images [n * d, c, h, w].

The planes that a window has under it become one image, so that kernels of images do the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.window import LoweredWindow, pads_of_window
from intact.engine.steps import Dim, Reshape, StackPlanes, Step, Transpose
from intact.engine.steps.base.window import MOST_HOP, MOST_WIDTH, Pair
from intact.graph import Node
from intact.graph.ops import Windowed

_Code = TypeVar("_Code", np.int8, np.float32)


@dataclass(frozen=True)
class VolumeWindow:
    """A window over volumes: along the depth, pads as (before, behind), and over what planes become.

    Attributes:
        rows: Planes of a window lie between each other's rows, so that groups of channels stay as they are;
            else their channels behind each other, which most kernels like better.
        over: The window over such images.
        repeats: Beyond the ends of the depth lies the nearest plane, not 0.
    """

    kernel: int
    stride: int
    dilation: int
    pads: Pair
    rows: bool
    over: LoweredWindow
    repeats: bool = False

    @property
    def alone(self) -> bool:
        """Return whether each plane is a window by itself."""
        return (self.kernel, self.stride, *self.pads) == (1, 1, 0, 0)

    def filters(self, weight: NDArray[_Code]) -> NDArray[_Code]:
        """Reorder weights [out, in / groups, d, h, w] to those of such images, [out, h, w, in / groups]."""
        out, inputs, _, height, width = weight.shape
        if self.rows:
            return np.ascontiguousarray(weight.transpose(0, 3, 2, 4, 1)).reshape(out, -1, width, inputs)
        return np.ascontiguousarray(weight.transpose(0, 3, 4, 2, 1)).reshape(out, height, width, -1)


def volume_window(node: Node, op: Windowed, kernel: Sequence[int], *, rows: bool) -> VolumeWindow:
    """Return the window of a convolution or pool over volumes; `rows` as there.

    Raises:
        NoMatch: Its pads are negative, or depend on sizes that are not known; rows lie apart, where `rows`.
    """
    strides, dilations = op.strides_of(3), op.dilations_of(3)
    pads = pads_of_window(node, op, kernel)
    if min(pads) < 0:
        raise NoMatch("its pads are negative")
    if max(*strides, *dilations) > MOST_HOP or max(*kernel, *pads) > MOST_WIDTH:
        raise NoMatch("its strides, dilations, kernel or pads are wider than any volume")
    depth, height = kernel[0], dilations[1]
    front, top, left, back, bottom, right = pads
    if rows and depth > 1 and height > 1 and kernel[1] > 1:
        raise NoMatch("rows of its window are apart")
    row_depth = depth if rows else 1
    over = LoweredWindow(
        (strides[1] * row_depth, strides[2]),
        (1 if rows else height, dilations[2]),
        (top * row_depth, left, bottom * row_depth, right),
    )
    if rows and depth == 1:
        over = replace(over, dilations=(height, dilations[2]))
    return VolumeWindow(depth, strides[0], dilations[0], (front, back), rows, over)


def plane_dims(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return sizes [n, c, d, h, w] as [n * d, c, h, w].

    Raises:
        NoMatch: The depth is not known or 0, or nobody could tell how many planes there are.
    """
    count, channels, depth, *plane = shape
    if not isinstance(depth, int):
        raise NoMatch("the depth of its volumes is not known")
    if depth < 1:
        raise NoMatch("its volumes have no planes")
    if isinstance(count, int):
        return (count * depth, channels, *plane)
    # Of no elements there may be any number of planes.
    if not all(isinstance(n, int) and n > 0 for n in (channels, *plane)):
        raise NoMatch("neither how many volumes there are is known, nor all sizes of their planes")
    return (f"{count}*{depth}", channels, *plane)


def as_planes(builder: PlanBuilder, x: str, name: str, done: tuple[str, ...]) -> tuple[str, list[Step]]:
    """Reshape a tensor of volumes to one of planes; return it and the steps."""
    tensor = builder.tensors[x]
    planes = plane_dims(tensor.shape)
    turned = tuple(tensor.shape[axis] for axis in _TURNED)
    transposed = builder.scratch(f"{x}.turned", tensor.dtype, turned, tensor.codes)
    plane_tensor = builder.scratch(f"{x}.planes", tensor.dtype, planes, tensor.codes)
    return plane_tensor, [
        Transpose(name, done, x, transposed, _TURNED),
        Reshape(name, done, transposed, plane_tensor),
    ]


def stack_window(
    builder: PlanBuilder, x: str, depth: Dim, window: VolumeWindow, name: str, done: tuple[str, ...]
) -> tuple[str, list[Step]]:
    """Stack planes of x with those of their window; return the tensor and the step."""
    if window.alone:
        return x, []
    assert isinstance(depth, int), "its planes were counted"
    tensor = builder.tensors[x]
    rule = window.kernel, window.stride, window.dilation, window.pads, window.rows, window.repeats
    step = StackPlanes(name, done, x, "", depth, *rule)
    if step.places < 1:
        raise NoMatch("its window is deeper than the volume")
    planes, channels, height, width = tensor.shape
    volumes: Dim = planes // depth if isinstance(planes, int) else str(planes).removesuffix(f"*{depth}")
    often = (1, window.kernel) if window.rows else (window.kernel, 1)
    image = _times(channels, often[0]), step.places, _times(height, often[1]), width
    y = builder.scratch(f"{x}.stacked", tensor.dtype, plane_dims((volumes, *image)), tensor.codes)
    return y, [replace(step, y=y)]


def _times(size: Dim, count: int) -> Dim:
    return size * count if isinstance(size, int) else size if count == 1 else f"{size}*{count}"


def as_volumes(builder: PlanBuilder, y: str, name: str, done: tuple[str, ...]) -> tuple[str, list[Step]]:
    """Turn planes into the tensor of volumes y; return them and the steps."""
    tensor = builder.tensors[y]
    planes = builder.scratch(f"{y}.planes", tensor.dtype, plane_dims(tensor.shape), tensor.codes)
    turned = tuple(tensor.shape[axis] for axis in _TURNED)
    transposed = builder.scratch(f"{y}.turned", tensor.dtype, turned, tensor.codes)
    return planes, [Reshape(name, done, planes, transposed), Transpose(name, done, transposed, y, _TURNED)]


_TURNED = (0, 2, 1, 3, 4)
