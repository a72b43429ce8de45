"""Lowers Resize, and other operators whose output reads constant places of axes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import define_like, who
from intact.engine.lower.rules.moves.interpolate import axes_to_resize, lower_interpolation
from intact.engine.lower.rules.moves.resize_places import resize_input, resize_places, sampling_of
from intact.engine.steps import Dim, Reshape, Resize, Tensor
from intact.graph import Node, ops
from intact.limits import RESIZED
from intact.numerics import SAMPLED_TERMS, ResizeSampling, nearest_places

Places = Mapping[int, NDArray[np.int64]]
"""Axis -> what is read there; other axes stay as they are."""


def take_places(builder: PlanBuilder, node: Node, x: Tensor, places: Places) -> None:
    """Write the step that reads these places of axes; without any a Reshape."""
    if not places:  # of a scalar, or as often as it is there
        builder.add(Reshape(*who(node), x.name, define_like(builder, node.outputs[0], x)), node)
        return
    indices = tuple(builder.hold(f"{node.name}.axis{axis}", read) for axis, read in places.items())
    y = define_like(builder, node.outputs[0], x)
    builder.add(Resize(*who(node), x.name, y, tuple(places), indices), node)


def check_count(axis: int, count: int) -> None:
    """Refuse an axis of no elements, or of more than a Resize makes.

    Raises:
        NoMatch: It has as many.
    """
    if not 0 < count <= RESIZED.most:
        raise NoMatch(f"it makes {count} elements along axis {axis}")


def require_size(shape: tuple[Dim, ...], axis: int) -> int:
    """Return the size of an axis, which must be known.

    Raises:
        NoMatch: It is not known, or 0.
    """
    size = shape[axis]
    if not isinstance(size, int):
        raise NoMatch(f"the size of axis {axis} is not known")
    if size < 1:
        raise NoMatch(f"axis {axis} is empty")
    return size


def lower_resize(builder: PlanBuilder, node: Node) -> None:
    """Lower Resize to the nearest element, or to values between elements, by the mode."""
    op = ops.Resize.of(node)
    if op.mode == "nearest":
        _take_nearest(builder, node, op)
    elif op.mode in SAMPLED_TERMS:
        lower_interpolation(builder, node, op)
    else:
        raise NoMatch(f"it interpolates: {op.mode}")


def _take_nearest(builder: PlanBuilder, node: Node, op: ops.Resize) -> None:
    x, sampling = resize_input(builder, node), sampling_of(op)
    axes, indices = list[int](), list[str]()
    for axis, size, wanted, scale in axes_to_resize(builder, node, op, x.shape):
        axes.append(axis)
        name = f"{node.name}.axis{axis}"
        if isinstance(size, int) and isinstance(wanted, int):
            chosen = _nearest(sampling, size, wanted, wanted / size if scale is None else scale)
            indices.append(builder.hold(name, chosen))
        else:
            indices.append(builder.scratch(name, "int64", (wanted,)))
            builder.add(resize_places(node, sampling, indices[-1], size, wanted, scale))
    y = define_like(builder, node.outputs[0], x)
    builder.add(Resize(*who(node), x.name, y, tuple(axes), tuple(indices)), node)


def _nearest(sampling: ResizeSampling, size: int, wanted: int, scale: float) -> NDArray[np.int64]:
    """Return the input element that each of `wanted` outputs reads, as ONNX's Resize rounds."""
    chosen = nearest_places(sampling, size, wanted, scale, np.float64)
    if (nearest_places(sampling, size, wanted, scale, np.float32) != chosen).any():
        raise NoMatch("it rounds so near a tie that the width of floats decides")
    return chosen
