"""Lowers Resize by values between elements, along one axis after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import who
from intact.engine.lower.passes.output_sizes import check_scales
from intact.engine.steps import Dim, Interpolate, Reshape
from intact.graph import Node, ops
from intact.limits import RESIZED

Shape = tuple[Dim, ...]

Reals = NDArray[np.floating[Any]]


def lower_interpolation(builder: PlanBuilder, node: Node, op: ops.Resize) -> None:
    """Lower an interpolating Resize to a step for each axis, those that shrink first to keep tensors
    small."""
    x = builder.real(node.inputs[0])
    if builder.tensors[x].dtype != "float32":
        raise NoMatch(f"it interpolates {builder.tensors[x].dtype}")
    shape = builder.tensors[x].shape
    changed = sorted(axes_to_resize(builder, node, op, shape), key=lambda axis_change: axis_change[3])
    if not changed:
        builder.add(Reshape(*who(node), x, builder.write_plain(node.outputs[0], "float32")), node)
    for axis, size, wanted, scale in changed:
        places, weights = samples(op, size, wanted, scale)
        constants = [
            builder.hold(f"{node.name}.axis{axis}.{key}", array)
            for key, array in (("places", places), ("weights", weights))
        ]
        shape = tuple(wanted if i == axis else n for i, n in enumerate(shape))
        last = axis == changed[-1][0]
        y = builder.write_plain(node.outputs[0], "float32") if last else ""
        y = y or builder.scratch(f"{node.outputs[0].name}.axis{axis}", "float32", shape)
        builder.add(Interpolate(*who(node), x, y, axis, *constants), *[node] * last)
        x = y


def samples(
    op: ops.Resize, size: int, wanted: int, scale: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the elements that each of `wanted` outputs sums, and their weights: [wanted, terms] each."""
    at = coordinates(op, np.float64, size, wanted, scale)
    smooth = bool(op.antialias) and scale < 1
    places, weights = _antialias(at, size, op, scale) if smooth else SAMPLES[op.mode](at, size, op)
    return places, weights.astype(np.float32)


def axes_to_resize(
    builder: PlanBuilder, node: Node, op: ops.Resize, shape: Shape
) -> list[tuple[int, int, int, float]]:
    """Return (axis, size, wanted size, scale) for each axis that changes."""
    scales = _scales(builder, node, op, len(shape))
    if not scales and op.keep_aspect_ratio_policy != "stretch":
        raise NoMatch(f"its scales follow '{op.keep_aspect_ratio_policy}'")
    changes, output_dims = list[tuple[int, int, int, float]](), dims_of(node.outputs[0])
    if output_dims == shape:
        return []  # whatever the scales are, as in ONNX Runtime
    for axis, (size, wanted) in enumerate(zip(shape, output_dims, strict=True)):
        given_scale = scales.get(axis, 1.0) if scales else None
        if given_scale == 1 or (given_scale is None and size == wanted):
            continue
        if not isinstance(size, int) or not isinstance(wanted, int):
            raise NoMatch(f"the size of axis {axis} is not known")
        RESIZED.check(wanted, f"node '{node.name}' ({node.op_type})")
        if size == 0:
            raise NoMatch(f"axis {axis} is empty")
        changes.append((axis, size, wanted, wanted / size if given_scale is None else given_scale))
    return changes


def _scales(builder: PlanBuilder, node: Node, op: ops.Resize, rank: int) -> dict[int, float]:
    """Return the given scales by axis; empty where sizes are given."""
    if len(node.inputs) < 3 or node.inputs[2] is None or not node.inputs[2].name:
        return {}
    scales = builder.constant(node.inputs[2], "its scales")
    check_scales(node, scales)
    if scales.size == 0:
        return {}
    axes = [axis % rank for axis in op.axes] if op.axes is not None else range(rank)
    return dict(zip(axes, map(float, scales), strict=True))


def coordinates(op: ops.Resize, real: Any, size: int, wanted: int, scale: float) -> Reals:
    """Return the position of each of `wanted` output elements among those of the input."""
    place = _PLACES.get(op.coordinate_transformation_mode)
    if place is None:
        raise NoMatch(f"its coordinates follow '{op.coordinate_transformation_mode}'")
    return np.asarray(place(np.arange(wanted, dtype=real), real(scale), size, wanted))


def _linear(at: Reals, size: int, op: ops.Resize) -> tuple[NDArray[np.int64], Reals]:
    """Weigh the two neighbours by nearness."""
    low = np.floor(at)
    part = at - low
    places = np.stack([low, low + 1], axis=1)
    return np.clip(places, 0, size - 1).astype(np.int64), np.stack([1 - part, part], axis=1)


def _cubic(at: Reals, size: int, op: ops.Resize) -> tuple[NDArray[np.int64], Reals]:
    """Weigh four neighbours by Keys' kernel (1981), as ONNX's Resize has it."""
    places = np.floor(at)[:, None] + np.arange(-1, 3)
    weights = _keys(np.abs(at[:, None] - places), op.cubic_coeff_a)
    if op.exclude_outside:
        weights = np.where((places >= 0) & (places < size), weights, 0)
        weights /= weights.sum(axis=1, keepdims=True)
    return np.clip(places, 0, size - 1).astype(np.int64), weights


def _keys(away: Reals, a: float) -> Reals:
    """Return the cubic weight of an element by its distance (Keys)."""
    near = ((a + 2) * away - (a + 3)) * away**2 + 1
    far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
    return np.where(away <= 1, near, np.where(away < 2, far, 0))


def _antialias(at: Reals, size: int, op: ops.Resize, scale: float) -> tuple[NDArray[np.int64], Reals]:
    """Weigh all neighbours under the kernel, widened by 1 / scale, as ONNX Runtime and PyTorch have it: those
    beyond the ends count for the last one, or not at all."""
    reach = (2 if op.mode == "cubic" else 1) / scale
    first = np.floor(at + 1 - reach)
    places = first[:, None] + np.arange(int(np.floor(2 * reach)) + 2)
    away = np.abs(at[:, None] - places) * scale
    weights = _keys(away, op.cubic_coeff_a) if op.mode == "cubic" else np.maximum(1 - away, 0)
    inside = (places >= 0) & (places < size)
    if op.exclude_outside:
        weights = np.where(inside, weights, 0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    used = weights.any(axis=0)  # of a column that weighs nothing nobody needs the places
    return np.clip(places[:, used], 0, size - 1).astype(np.int64), weights[:, used]


_PLACES: dict[str, Callable[[Reals, Any, int, int], Reals]] = {
    "half_pixel": lambda i, scale, size, wanted: (i + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda i, scale, size, wanted: (
        (i + 0.5) / scale - 0.5 + size / 2 * (1 - wanted / (scale * size))
    ),
    "pytorch_half_pixel": lambda i, scale, size, wanted: (i + 0.5) / scale - 0.5 if wanted > 1 else i * 0,
    "asymmetric": lambda i, scale, size, wanted: i / scale,
    "align_corners": lambda i, scale, size, wanted: i * (size - 1) / (wanted - 1) if wanted > 1 else i * 0,
}

SAMPLES = {"cubic": _cubic, "linear": _linear}
"""Mode -> the places and weights of what each element is a sum of."""
