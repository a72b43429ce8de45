"""Windows over three axes as windows over planes: volumes [n, c, d, h, w] as images [n * d, c, h, w].

The planes that a window has under it become channels of one image, so that kernels of images do the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.builder import NoMatch, PlanBuilder
from intact.engine.lower.window import LoweredWindow, pads_of_window
from intact.engine.steps import Dim, Reshape, StackPlanes, Step, Transpose
from intact.engine.steps.window import MOST_HOP, MOST_WIDTH, Pair
from intact.graph import Node
from intact.graph.ops import Windowed

_Code = TypeVar("_Code", np.int8, np.float32)


@dataclass(frozen=True)
class DepthWindow:
    """A window along the depth, pads as (before, behind)."""

    kernel: int
    stride: int
    dilation: int
    pads: Pair

    @property
    def alone(self) -> bool:
        """Whether each plane is a window."""
        return (self.kernel, self.stride, *self.pads) == (1, 1, 0, 0)


def volume_window(node: Node, said: Windowed, kernel: Sequence[int]) -> tuple[DepthWindow, LoweredWindow]:
    """The window of a convolution or pool over volumes: along the depth, and over a plane.

    Raises:
        NoMatch: Its pads are negative, or depend on sizes that are not known.
    """
    strides, dilations = said.strides_of(3), said.dilations_of(3)
    pads = pads_of_window(node, said, kernel)
    if min(pads) < 0:
        raise NoMatch("its pads are negative")
    if max(*strides, *dilations) > MOST_HOP or max(*kernel, *pads) > MOST_WIDTH:
        raise NoMatch("its strides, dilations, kernel or pads are wider than any volume")
    front, top, left, back, bottom, right = pads
    over = LoweredWindow((strides[1], strides[2]), (dilations[1], dilations[2]), (top, left, bottom, right))
    return DepthWindow(kernel[0], strides[0], dilations[0], (front, back)), over


def plane_filters(weight: NDArray[_Code]) -> NDArray[_Code]:
    """Weights [out, in / groups, d, h, w] as those of stacked planes: [out, h, w, d * in / groups]."""
    out, inputs, depth, height, width = weight.shape
    return np.ascontiguousarray(weight.transpose(0, 3, 4, 2, 1)).reshape(out, height, width, depth * inputs)


def plane_dims(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """[n, c, d, h, w] as [n * d, c, h, w].

    Raises:
        NoMatch: The depth is not known.
    """
    count, channels, depth, *plane = shape
    if not isinstance(depth, int):
        raise NoMatch("the depth of its volumes is not known")
    planes: Dim = count * depth if isinstance(count, int) else f"{count}*{depth}"
    return (planes, channels, *plane)


def as_planes(builder: PlanBuilder, x: str, name: str, done: tuple[str, ...]) -> tuple[str, list[Step]]:
    """A tensor of volumes as one of planes, and the steps that make it."""
    tensor = builder.tensors[x]
    planes = plane_dims(tensor.shape)
    turned = tuple(tensor.shape[axis] for axis in _TURNED)
    between = builder.scratch(f"{x}.turned", tensor.dtype, turned, tensor.codes)
    made = builder.scratch(f"{x}.planes", tensor.dtype, planes, tensor.codes)
    return made, [Transpose(name, done, x, between, _TURNED), Reshape(name, done, between, made)]


def stacked(
    builder: PlanBuilder,
    x: str,
    depth: Dim,
    window: DepthWindow,
    groups: int,
    name: str,
    done: tuple[str, ...],
) -> tuple[str, list[Step]]:
    """Planes x with those of their window as channels, and the step that makes it."""
    if window.alone:
        return x, []
    assert isinstance(depth, int), "its planes were counted"
    tensor = builder.tensors[x]
    rule = depth, window.kernel, window.stride, window.dilation, window.pads, groups
    step = StackPlanes(name, done, x, "", *rule)
    if step.places < 1:
        raise NoMatch("its window is deeper than the volume")
    planes, channels, *plane = tensor.shape
    if not isinstance(channels, int):
        raise NoMatch("its channels are not known")
    volumes: Dim = planes // depth if isinstance(planes, int) else str(planes).removesuffix(f"*{depth}")
    shape = plane_dims((volumes, channels * window.kernel, step.places, *plane))
    y = builder.scratch(f"{x}.stacked", tensor.dtype, shape, tensor.codes)
    return y, [replace(step, y=y)]


def as_volumes(builder: PlanBuilder, y: str, name: str, done: tuple[str, ...]) -> tuple[str, list[Step]]:
    """Planes that become the tensor of volumes y, and the steps that make it of them."""
    tensor = builder.tensors[y]
    planes = builder.scratch(f"{y}.planes", tensor.dtype, plane_dims(tensor.shape), tensor.codes)
    turned = tuple(tensor.shape[axis] for axis in _TURNED)
    between = builder.scratch(f"{y}.turned", tensor.dtype, turned, tensor.codes)
    return planes, [Reshape(name, done, planes, between), Transpose(name, done, between, y, _TURNED)]


_TURNED = (0, 2, 1, 3, 4)
