"""Writes the steps of what a Resize to a free size reads."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import between, data, plain, who
from intact.engine.steps import Dim, Expand, ResizePlaces, Tensor
from intact.graph import Node, ops
from intact.numerics import COORDINATES, ROUNDINGS, ResizeSampling


def resize_input(builder: PlanBuilder, node: Node) -> Tensor:
    """Return the tensor that a Resize reads; a constant becomes one, once for each set of sizes."""
    value = node.inputs[0]
    if value not in builder.constants:
        return data(builder, value)
    table = plain(builder, value)
    x = between(builder, f"{node.outputs[0].name}.table", table, table.shape)
    builder.add(Expand(*who(node), table.name, x))
    return builder.tensors[x]


def resize_places(
    node: Node,
    sampling: ResizeSampling,
    places: str,
    size: Dim,
    wanted: Dim,
    scale: float | None,
    weights: str = "",
) -> ResizePlaces:  # fmt: skip
    """Return the step that works out what an axis of a free size reads."""
    return ResizePlaces(
        *who(node), places, size, wanted, sampling.mode, sampling.coordinates, sampling.rounding,
        sampling.cubic_coeff_a, sampling.exclude_outside, scale, weights,
    )  # fmt: skip


def sampling_of(op: ops.Resize) -> ResizeSampling:
    """Return what a Resize says, as `numerics` describes it.

    Raises:
        NoMatch: It has coordinates or a rounding that no kernel knows.
    """
    if op.coordinate_transformation_mode not in COORDINATES:
        raise NoMatch(f"its coordinates follow '{op.coordinate_transformation_mode}'")
    if op.nearest_mode not in ROUNDINGS:
        raise NoMatch(f"it rounds by '{op.nearest_mode}'")
    return ResizeSampling(
        op.mode, op.coordinate_transformation_mode, op.nearest_mode, op.cubic_coeff_a,
        bool(op.exclude_outside), bool(op.antialias),
    )  # fmt: skip
