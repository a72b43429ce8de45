"""Lowers Resize by values between elements, along one axis after the other."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import who
from intact.engine.lower.passes.output_sizes import check_scales
from intact.engine.lower.rules.moves.resize_places import resize_input, resize_places, sampling_of
from intact.engine.steps import Dim, Interpolate, Reshape
from intact.graph import Node, ops
from intact.limits import RESIZED
from intact.numerics import SAMPLED_TERMS, weighted_places

Shape = tuple[Dim, ...]


def lower_interpolation(builder: PlanBuilder, node: Node, op: ops.Resize) -> None:
    """Lower an interpolating Resize to a step for each axis, those that shrink first to keep tensors
    small."""
    constant = node.inputs[0] in builder.constants
    x = resize_input(builder, node).name if constant else builder.real(node.inputs[0])
    if builder.tensors[x].dtype != "float32":
        raise NoMatch(f"it interpolates {builder.tensors[x].dtype}")
    shape = builder.tensors[x].shape
    changed = sorted(axes_to_resize(builder, node, op, shape), key=_growth)
    if not changed:
        builder.add(Reshape(*who(node), x, builder.write_plain(node.outputs[0], "float32")), node)
    for axis, size, wanted, scale in changed:
        read = _places(builder, node, op, axis, size, wanted, scale)
        shape = tuple(wanted if i == axis else n for i, n in enumerate(shape))
        last = axis == changed[-1][0]
        y = builder.write_plain(node.outputs[0], "float32") if last else ""
        y = y or builder.scratch(f"{node.outputs[0].name}.axis{axis}", "float32", shape)
        builder.add(Interpolate(*who(node), x, y, axis, *read), *[node] * last)
        x = y


def _growth(change: tuple[int, Dim, Dim, float | None]) -> float:
    """Return the scale of an axis; where sizes tell it later, 1: other axes shrink before and grow behind."""
    _, size, wanted, scale = change
    if scale is None and isinstance(size, int) and isinstance(wanted, int):
        return wanted / size
    return 1.0 if scale is None else scale


def _places(
    builder: PlanBuilder, node: Node, op: ops.Resize, axis: int, size: Dim, wanted: Dim, scale: float | None
) -> tuple[str, str]:
    """Return the places that an axis reads and their weights: constants, or what a step works out."""
    sampling, name = sampling_of(op), f"{node.name}.axis{axis}"
    if isinstance(size, int) and isinstance(wanted, int):
        read, shares = weighted_places(sampling, size, wanted, wanted / size if scale is None else scale)
        return builder.hold(f"{name}.places", read), builder.hold(f"{name}.weights", shares)
    if sampling.antialias:
        raise NoMatch(f"it smooths axis {axis}, whose size is not known")
    shape = (wanted, SAMPLED_TERMS[op.mode])
    places, weights = (
        builder.scratch(f"{name}.places", "int64", shape),
        builder.scratch(f"{name}.weights", "float32", shape),
    )
    builder.add(resize_places(node, sampling, places, size, wanted, scale, weights))
    return places, weights


def axes_to_resize(
    builder: PlanBuilder, node: Node, op: ops.Resize, shape: Shape
) -> list[tuple[int, Dim, Dim, float | None]]:
    """Return (axis, size, wanted size, scale) for each axis that changes; without a scale sizes tell it."""
    scales = _scales(builder, node, op, len(shape))
    if not scales and op.keep_aspect_ratio_policy != "stretch":
        raise NoMatch(f"its scales follow '{op.keep_aspect_ratio_policy}'")
    changes, output_dims = list[tuple[int, Dim, Dim, float | None]](), dims_of(node.outputs[0])
    if output_dims == shape:
        return []  # whatever the scales are, as in ONNX Runtime
    for axis, (size, wanted) in enumerate(zip(shape, output_dims, strict=True)):
        given_scale = scales.get(axis, 1.0) if scales else None
        if given_scale == 1 or (given_scale is None and size == wanted):
            continue
        if not builder.is_told(size) or not builder.is_told(wanted):
            raise NoMatch(f"the size of axis {axis} is not known")
        if isinstance(wanted, int):
            RESIZED.check(wanted, f"node '{node.name}' ({node.op_type})")
        if size == 0:
            raise NoMatch(f"axis {axis} is empty")
        changes.append((axis, size, wanted, given_scale))
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
